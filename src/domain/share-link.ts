/**
 * Readable links of markets and events. `/m/will-it-rain-in-delphi-3fa9c1d2e4b5` contains words of the question and the
 * start of the market's id. `/e/who-wins-3fa9c1d2e4b5` contains the slug of the event and the start of its hash.
 */

const SLUG_CHARS_MAX = 60
/**
 * Number of hex digits of the id in a link. If two markets have the same digits, the link leads to the older market, so
 * that no later market takes over a link.
 */
const SHORT_ID_CHARS = 12

export function marketPath(market: { readonly id: string; readonly question: string }): string {
  const shortId = shortIdOfMarket(market)
  const slug = slugOf(market.question)
  return `/m/${slug === '' ? '' : `${slug}-`}${shortId}`
}

/** Returns the first `SHORT_ID_CHARS` digits of a market's id, with which the market's link ends. */
export function shortIdOfMarket(market: { readonly id: string }): string {
  return market.id.slice(2, 2 + SHORT_ID_CHARS).toLowerCase()
}

/**
 * Returns the link of an event. The link ends with the start of the metadata's hash, so no event with other metadata
 * can take over the link.
 */
export function eventPath(event: { readonly slug: string; readonly hash: string }): string {
  return `/e/${event.slug}-${event.hash.slice(2, 2 + SHORT_ID_CHARS)}`
}

/**
 * Returns the slug and the start of the hash from the last part of an event link; undefined if that part contains no
 * hash.
 */
export function parseEventLink(
  name: string,
): { readonly slug: string; readonly hashStart: string } | undefined {
  const start = shortIdOf(name)
  if (start === undefined || name.length <= SHORT_ID_CHARS) return undefined
  return { slug: name.slice(0, -SHORT_ID_CHARS - 1), hashStart: `0x${start}` }
}

/** Returns the start of the id at the end of a link's last part; undefined if that part does not end with an id. */
export function shortIdOf(name: string): string | undefined {
  const shortId = name.slice(name.lastIndexOf('-') + 1).toLowerCase()
  const isOne = shortId.length === SHORT_ID_CHARS && /^[0-9a-f]+$/.test(shortId)
  return isOne ? shortId : undefined
}

/** Returns the first words of the question in plain letters and digits, joined by dashes. No word is cut. */
function slugOf(question: string): string {
  const words = question
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toLowerCase()
    .split(/[^a-z0-9]/)
    .filter(Boolean)
  let slug = ''
  for (const word of words) {
    if (slug.length + word.length >= SLUG_CHARS_MAX) break
    slug += slug === '' ? word : `-${word}`
  }
  return slug
}
