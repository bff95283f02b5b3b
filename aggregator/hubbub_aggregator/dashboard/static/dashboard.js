// Two conveniences that no page depends on: numbers under the pointer or the arrow keys, and updates without a reload.
(() => {
  "use strict";
  const EVERY = 20000;
  const SOON = 4000; // while something is being computed

  // -- charts: each is one stop for the Tab key; arrow keys move over the marks and read out their numbers

  const readable = (root) => {
    root.querySelectorAll("figure.chart .plot").forEach((plot) => {
      const spots = [...plot.querySelectorAll(".spot, .mark")];
      const figure = plot.closest("figure");
      const readout = figure.querySelector(".readout");
      if (!spots.length || !readout || plot.dataset.ready) return;
      plot.dataset.ready = "1";
      plot.setAttribute("tabindex", "0");
      const words = spots.map((one) => one.querySelector("title"));
      let at = spots.length - 1; // the newest period, or the last row
      if (!plot.querySelector(".newest")) at = 0;
      let shown = null;
      const read = (spot, pointer) => {
        if (shown && shown !== spot) shown.classList.remove("is-read");
        shown = spot;
        if (!spot) {
          readout.textContent = "";
          return;
        }
        spot.classList.add("is-read");
        const text = words[spots.indexOf(spot)].textContent;
        if (readout.textContent !== text) readout.textContent = text;
        // beside the pointer, or beside what the keyboard has reached; always inside the figure
        const room = figure.getBoundingClientRect();
        const box = spot.getBoundingClientRect();
        const x = pointer ? pointer.clientX : box.left + box.width / 2;
        const y = pointer ? pointer.clientY : Math.max(box.top, room.top) + Math.min(box.height / 2, 40);
        const left = x - room.left + 14 + readout.offsetWidth > room.width ? x - room.left - 14 - readout.offsetWidth : x - room.left + 14;
        readout.style.left = `${Math.max(0, Math.min(left, room.width - readout.offsetWidth))}px`;
        readout.style.top = `${Math.max(0, y - room.top - readout.offsetHeight - 10)}px`;
      };
      const step = (to) => {
        at = Math.max(0, Math.min(spots.length - 1, to));
        read(spots[at]);
      };
      plot.addEventListener("keydown", (event) => {
        const page = Math.max(2, Math.round(spots.length / 10));
        const moves = {
          ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1,
          PageDown: at + page, PageUp: at - page, Home: 0, End: spots.length - 1,
        };
        if (event.key === "Escape") read(null);
        if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        step(moves[event.key]);
      });
      plot.addEventListener("focus", () => plot.matches(":focus-visible") && step(at));
      plot.addEventListener("blur", () => read(null));
      // the browser's own titles, which would come on top after a while, are kept for screen readers only
      plot.addEventListener("pointerenter", () => words.forEach((one) => one.parentNode.setAttribute("aria-label", one.textContent) || one.remove()), { once: true });
      const point = (event) => {
        const spot = event.target.closest && event.target.closest(".spot, .mark");
        if (spot) read(spot, event);
      };
      plot.addEventListener("pointermove", point);
      plot.addEventListener("pointerdown", point);
      plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && read(plot === document.activeElement && plot.matches(":focus-visible") ? spots[at] : null));
    });
  };

  // -- updates: the same page is asked for again, and the regions that differ are replaced in place

  const regions = () => [...document.querySelectorAll("[data-live]")];
  const plain = (element) => {
    const copy = element.cloneNode(true);
    copy.querySelectorAll(".readout").forEach((one) => (one.textContent = ""));
    copy.querySelectorAll(".readout[style]").forEach((one) => one.removeAttribute("style"));
    copy.querySelectorAll(".plot title").forEach((one) => one.remove());
    copy.querySelectorAll(".plot [aria-label]").forEach((one) => one.removeAttribute("aria-label"));
    copy.querySelectorAll(".is-read").forEach((one) => one.classList.remove("is-read"));
    copy.querySelectorAll("[data-ready]").forEach((one) => {
      one.removeAttribute("data-ready");
      one.removeAttribute("tabindex");
    });
    copy.querySelectorAll("details[open]").forEach((one) => one.removeAttribute("open"));
    return copy.innerHTML;
  };
  const path = (element, root) => {
    const steps = [];
    for (let one = element; one && one !== root; one = one.parentElement) {
      steps.unshift([...one.parentElement.children].indexOf(one));
    }
    return steps;
  };
  const follow = (root, steps) => steps.reduce((one, step) => one && one.children[step], root);

  const exchange = (old, fresh) => {
    const focused = old.contains(document.activeElement) ? path(document.activeElement, old) : null;
    const opened = [...old.querySelectorAll("details[open]")].map((one) => path(one, old));
    const scrolled = [...old.querySelectorAll(".scroll")].map((one) => [path(one, old), one.scrollTop, one.scrollLeft]);
    const [x, y] = [window.scrollX, window.scrollY];
    old.replaceChildren(...fresh.childNodes);
    opened.forEach((steps) => {
      const one = follow(old, steps);
      if (one && one.tagName === "DETAILS") one.open = true;
    });
    scrolled.forEach(([steps, top, left]) => {
      const one = follow(old, steps);
      if (one) [one.scrollTop, one.scrollLeft] = [top, left];
    });
    readable(old);
    const again = focused && follow(old, focused);
    if (again && again.focus) again.focus({ preventScroll: true });
    window.scrollTo(x, y);
  };

  const busy = (region) => {
    const selection = window.getSelection();
    const reading = selection && !selection.isCollapsed && region.contains(selection.anchorNode);
    const active = document.activeElement;
    return reading || (region.contains(active) && active.matches("input, select, textarea"));
  };
  const said = document.createElement("p");
  said.setAttribute("role", "status");
  const away = (isAway) => {
    const words = isAway ? "The aggregator does not answer; these are its last numbers." : "";
    if (said.textContent !== words) said.textContent = words;
  };

  let paused = false;
  let tag = null;
  const ask = async () => {
    if (paused || document.hidden || !regions().length) return;
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(window.location.href.split("#")[0], { headers, cache: "no-store", credentials: "same-origin" });
      away(answer.status !== 200 && answer.status !== 304);
      if (answer.status !== 200) return;
      tag = answer.headers.get("ETag");
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      regions().forEach((old) => {
        const other = fresh.getElementById(old.id);
        if (!other || plain(other) === plain(old)) return;
        if (busy(old)) tag = null; // ask again when the person is done
        else exchange(old, other);
      });
    } catch {
      away(true); // the page stays as it is, and the next round asks again
    }
  };

  const pause = () => {
    if (!regions().length) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "pause";
    const show = () => {
      button.textContent = paused ? "Updates are paused: resume" : "Updates automatically: pause";
      button.setAttribute("aria-pressed", String(paused));
    };
    button.addEventListener("click", () => {
      paused = !paused;
      show();
      ask();
    });
    show();
    document.querySelector(".bottom").append(said, button);
  };

  readable(document);
  pause();
  window.setInterval(ask, EVERY);
  window.setInterval(() => document.querySelector("[data-soon]") && ask(), SOON);
  document.addEventListener("visibilitychange", ask);
})();
