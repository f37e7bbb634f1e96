// Keeps the middle of a screen fresh: the stream says that something changed, and the same page is fetched again.
const live = document.getElementById("live");
let due = false;
let late = 0;

async function refresh() {
  due = false;
  const active = document.activeElement;
  if (active && live.contains(active) && active.matches("input, button")) return; // somebody is typing or clicking
  const answer = await fetch(location.href, { credentials: "same-origin" });
  if (answer.redirected) location.assign(answer.url); // the login has ended
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("live");
  if (fresh) live.replaceChildren(...fresh.childNodes);
  live.dataset.fresh = String(Number(live.dataset.fresh || 0) + 1);
}

function changed() {
  if (due) return;
  due = true;
  const wait = Math.max(0, 1000 - (Date.now() - late)); // at most once a second
  late = Date.now() + wait;
  setTimeout(() => refresh().catch(() => {}), wait);
}

if (live && location.pathname !== "/dashboard/reveal") {
  const stream = new EventSource(live.dataset.stream);
  stream.addEventListener("now", changed);
}
