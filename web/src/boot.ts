// Runs before the first paint: sets theme and language, so that nothing flashes.
import { applyLook, readLook } from "./state/look";

applyLook(readLook());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyLook(readLook()));
