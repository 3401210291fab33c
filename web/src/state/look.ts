// Theme, language and keys: chosen on this device. They are needed before the
// gateway has told its id, so their name contains the path of the page instead.

export interface Look {
  theme: "system" | "light" | "dark";
  language: "system" | "en" | "zh";
  enter: "send" | "break"; // what Enter does in the composer
  letters: boolean; // shortcuts of a single letter
}

const standard: Look = { theme: "system", language: "system", enter: "send", letters: true };

const name = () => "nanobot:look:" + location.pathname;

export function readLook(): Look {
  try {
    return { ...standard, ...JSON.parse(localStorage.getItem(name()) ?? "{}") };
  } catch {
    return standard; // storage is blocked or holds something else
  }
}

export function writeLook(look: Look) {
  try {
    localStorage.setItem(name(), JSON.stringify(look));
  } catch {
    // It holds until the page is closed.
  }
}

export function languageOf(look: Look): "en" | "zh" {
  if (look.language !== "system") return look.language;
  return navigator.languages?.[0]?.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export function applyLook(look: Look) {
  const dark = look.theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : look.theme === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.lang = languageOf(look) === "zh" ? "zh-CN" : "en";
}
