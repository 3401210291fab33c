declare module "*.min.js";
