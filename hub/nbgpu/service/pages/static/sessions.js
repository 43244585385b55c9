// Ticks all rows of the page at once, and says how many are ticked. The page does without.
(() => {
  const form = document.getElementById("sessions");
  if (form === null) return;
  const all = document.getElementById("tick-all");
  const news = document.getElementById("ticked");
  const boxes = [...form.querySelectorAll('input[name="session"]')];
  const count = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    all.checked = ticked === boxes.length;
    all.indeterminate = ticked > 0 && ticked < boxes.length;
    if (news !== null) news.textContent = ticked ? news.dataset.text.replace("{count}", ticked) : "";
  };
  all.hidden = boxes.length === 0;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    count();
  });
  form.addEventListener("change", count);
})();
