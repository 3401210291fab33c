declare module "*.min.js";
declare module "temml" {
  const temml: { __renderToMathMLTree(tex: string, options: object): unknown };
  export default temml;
}
