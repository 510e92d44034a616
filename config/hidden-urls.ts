/** Removes secrets from URLs before they are shown or logged: chain providers put API keys into paths and queries. */

const HIDDEN = '(hidden)'
/** Matches a URL in a text or in a line of JSON, up to white space, a quote, a bracket or a backslash. */
const URL_IN_TEXT = /\b([a-z][a-z0-9+.-]*:\/\/)([^\s"'`\\<>(){}|]+)/gi
/** Minimum length of a key. Shorter path segments name a network or a version, such as `v2` or `polygon-mainnet`. */
const KEY_CHARS_MIN = 16
const WORDS = /^[a-z]+([-_.][a-z]+)+$/
const KEY_NAME = /key|token|secret|auth|pass|sig|jwt|credential/i

/** Replaces user names, passwords and likely keys in every URL of the text. */
export function hideUrlSecrets(text: string): string {
  if (!text.includes('://')) return text
  return text.replace(URL_IN_TEXT, (_, scheme: string, rest: string) => {
    const pathAt = indexOf(rest, /[/?#]/)
    const queryAt = indexOf(rest, /[?#]/)
    const authority = rest.slice(0, pathAt)
    const path = rest.slice(pathAt, queryAt)
    const query = rest.slice(queryAt)
    const shownPath = path.split('/').map((part) => (isKeyLike(part) ? HIDDEN : part))
    return `${scheme}${withoutUser(authority)}${shownPath.join('/')}${shownQuery(query)}`
  })
}

/**
 * Returns scheme and host of a chain provider's URL, and hides everything after the host, because a path may be a key
 * of any form.
 */
export function hideUrlPath(url: string): string {
  if (!URL.canParse(url)) return HIDDEN
  const { origin, pathname, search, hash } = new URL(url)
  return `${pathname}${search}${hash}` === '/' ? origin : `${origin}/${HIDDEN}`
}

/** Returns the index of the first character that matches; the length of the text if none does. */
function indexOf(text: string, character: RegExp): number {
  const at = text.search(character)
  return at === -1 ? text.length : at
}

function isKeyLike(part: string): boolean {
  return part.length >= KEY_CHARS_MIN && !WORDS.test(part)
}

function withoutUser(authority: string): string {
  const at = authority.lastIndexOf('@')
  return at < 0 ? authority : `${HIDDEN}${authority.slice(at)}`
}

function shownQuery(query: string): string {
  return query.replace(/([?&#;])([^=&#;]*)(?:=([^&#;]*))?/g, (_, mark, name, value) => {
    if (value === undefined) return `${mark}${isKeyLike(name) ? HIDDEN : name}`
    return `${mark}${name}=${KEY_NAME.test(name) || isKeyLike(value) ? HIDDEN : value}`
  })
}
