// What a page does by itself: a box that filters the cards or rows below it, and everything opened for the printer.
for (const box of document.querySelectorAll("input.find")) {
  const among = document.getElementById(box.dataset.among);
  const kept = among.matches("table, .wide") ? among.querySelectorAll("tbody tr") : among.children;
  box.addEventListener("input", () => {
    const wanted = box.value.trim().toLowerCase();
    for (const each of kept) each.hidden = wanted !== "" && !each.textContent.toLowerCase().includes(wanted);
  });
}
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details:not([open])")) {
    each.open = true;
    each.dataset.closed = "";
  }
});
addEventListener("afterprint", () => {
  for (const each of document.querySelectorAll("details[data-closed]")) {
    each.open = false;
    delete each.dataset.closed;
  }
});
