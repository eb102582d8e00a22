"use strict";
{
  const REACH = 26; // pixels within which a point answers
  const tip = document.getElementById("tip");
  let shown = null;

  const middle = mark => {
    const box = mark.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };

  const hide = () => {
    document.querySelectorAll(".mark.on").forEach(mark => mark.classList.remove("on"));
    tip.hidden = true;
    shown = null;
  };

  const show = mark => {
    if (shown === mark) return;
    hide();
    shown = mark;
    const row = mark.dataset.row;
    document.querySelectorAll(`.mark[data-row="${row}"]`).forEach(twin => twin.classList.add("on"));
    const title = document.createElement("b");
    title.textContent = mark.getAttribute("aria-label");
    const told = document.getElementById(row).cloneNode(true);
    told.removeAttribute("id");
    tip.replaceChildren(title, told);
    tip.hidden = false;
    const [x, y] = middle(mark), { width, height } = tip.getBoundingClientRect();
    const high = document.documentElement.clientHeight, wide = document.documentElement.clientWidth;
    const below = y + 18 + height <= high - 8 || y - 18 - height < 8;
    tip.style.left = `${Math.max(8, Math.min(x - width / 2, wide - width - 8))}px`;
    tip.style.top = `${Math.max(8, Math.min(below ? y + 18 : y - 18 - height, high - height - 8))}px`;
  };

  const nearest = (marks, event) => {
    let best = null, least = REACH;
    for (const mark of marks) {
      const [x, y] = middle(mark), distance = Math.hypot(event.clientX - x, event.clientY - y);
      if (distance < least) [best, least] = [mark, distance];
    }
    return best;
  };

  for (const figure of document.querySelectorAll(".picture svg[role=group]")) {
    const marks = [...figure.querySelectorAll(".mark")];
    const answer = event => {
      const mark = nearest(marks, event);
      if (mark) show(mark);
      else hide();
    };
    marks[0].tabIndex = 0; // one stop for each figure; arrows lead to the other points
    figure.addEventListener("pointermove", answer);
    figure.addEventListener("pointerdown", answer);
    figure.addEventListener("pointerleave", event => event.pointerType === "mouse" && hide());
    figure.addEventListener("focusin", event => event.target.matches(".mark") && show(event.target));
    figure.addEventListener("focusout", hide);
    figure.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const place = marks.indexOf(event.target);
      if (!step || place < 0) return;
      event.preventDefault();
      const next = marks[(place + step + marks.length) % marks.length];
      marks.forEach(mark => (mark.tabIndex = mark === next ? 0 : -1));
      next.focus();
    });
  }
  document.addEventListener("keydown", event => event.key === "Escape" && hide());
  document.addEventListener("pointerdown", event => event.target.closest(".picture svg") || hide());
  addEventListener("scroll", hide, { passive: true });
}
