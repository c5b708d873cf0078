// Light or dark: the system's choice at first, then the button's (id "theme"), remembered where the browser allows it.
(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const stored = () => { try { return localStorage.getItem("minicompile-theme"); } catch { return null; } };
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "light" : "dark";
  };
  show(stored() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("minicompile-theme", theme); } catch { /* a page on disk may not store */ }
    show(theme);
  });
})();
