// Light or dark as chosen before, set before anything is drawn; otherwise as the system has it.
(() => {
  const kept = localStorage.getItem("locknut-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
