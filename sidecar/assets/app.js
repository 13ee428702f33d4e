// Live updates, "select all" and the preview of settings. Every page also works without this script.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const live = $("live"), text = $("live-text"), lost = $("lost"), announce = $("announce");

  const show = (state, label, warning) => {
    live.dataset.state = state;
    text.textContent = label;
    lost.hidden = !warning;
    if (warning && lost.textContent !== warning) lost.textContent = warning;
  };

  // A region is not replaced while somebody is typing in it or has a list open.
  const isBusy = (region) => {
    const at = document.activeElement;
    return region.contains(at) && at.matches("input:not([type=checkbox]), select, textarea");
  };

  // Replaces the live regions of the page that differ from those of `fresh`, and keeps what was ticked, typed, opened and
  // focused.
  const swap = (fresh) => {
    const badge = document.querySelector("#state [data-badge]")?.textContent;
    for (const region of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(region.id);
      if (!next || isBusy(region)) continue;
      for (const one of region.querySelectorAll("details[open]")) fresh.getElementById(one.id)?.setAttribute("open", "");
      if (next.innerHTML === region.innerHTML) continue;
      const ticked = new Set([...region.querySelectorAll("input:checked")].map((box) => box.value));
      const typed = [...region.querySelectorAll("input[type=text]")].map((field) => [field.id, field.value]);
      const focus = region.contains(document.activeElement) ? document.activeElement.id : "";
      region.replaceChildren(...next.childNodes);
      for (const box of region.querySelectorAll("input[type=checkbox]")) box.checked = ticked.has(box.value) && !box.disabled;
      for (const [id, value] of typed) if (id && value && $(id)) $(id).value = value;
      if (focus) $(focus)?.focus();
    }
    const now = document.querySelector("#state [data-badge]")?.textContent;
    if (badge !== now && now) announce.textContent = `State: ${now}`;
  };

  let isRefreshing = false, again = false;
  const refresh = async () => {
    if (isRefreshing) { again = true; return; }
    isRefreshing = true;
    try {
      // A page that answers a form has an address that cannot be fetched again; it names the page to fetch instead.
      const here = document.querySelector("[data-page]")?.dataset.page ?? location.href;
      const answer = await fetch(here, { headers: { accept: "text/html" } });
      if (answer.ok && !answer.redirected) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { /* the stream reports that the connection is lost */ }
    isRefreshing = false;
    if (again) { again = false; refresh(); }
  };

  // Browsers allow six connections to a host, so a page that is not visible closes its stream.
  let source;
  const listen = () => {
    source = new EventSource("/live");
    source.addEventListener("hello", () => { show("on", "Live", ""); refresh(); });
    source.addEventListener("change", refresh);
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) show("lost", "Signed out", "You are signed out. Reload the page to sign in again.");
      else show("lost", "Disconnected", "Disconnected: what you see may be out of date. Reconnecting…");
    };
  };
  document.addEventListener("visibilitychange", () => {
    source.close();
    if (!document.hidden) listen();
  });
  listen();

  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const box of event.target.form.querySelectorAll("input[name=agent_id]:not(:disabled)")) box.checked = event.target.checked;
  });

  // Shows what the settings would have done while they are being typed.
  const form = document.querySelector("form[data-preview]");
  let timer;
  form?.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      try {
        const answer = await fetch(form.dataset.preview, { method: "POST", body: new URLSearchParams(new FormData(form)) });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        const refused = fresh.querySelector("#kill-switch .notice.bad");
        $("preview").replaceChildren(...(refused ? [refused] : fresh.getElementById("preview")?.childNodes ?? []));
        const highest = fresh.getElementById("threshold_hint");
        if (highest) $("threshold_hint").replaceChildren(...highest.childNodes);
      } catch { /* the error is shown when the settings are saved */ }
    }, 300);
  });
})();
