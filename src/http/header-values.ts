/**
 * Request headers with structured values. Headers are split and compared, and never matched by a regular expression. An
 * unauthenticated client may send 4 KiB of arbitrary text, which can make a regular expression very slow.
 */

/** Maximum length of a media type: longer than every accepted media type. */
const MEDIA_TYPE_CHARS_MAX = 100

/** Returns whether the media type is JSON in UTF-8: `application/json`, with no parameter except `charset`. */
export function isJsonType(contentType: string): boolean {
  if (contentType.length > MEDIA_TYPE_CHARS_MAX) return false
  const [type, ...parameters] = partsOf(contentType.toLowerCase(), ';')
  if (type !== 'application/json') return false
  // A trailing semicolon is ignored.
  if (parameters.at(-1) === '') parameters.pop()
  if (parameters.length === 0) return true
  const [name, value, more] = partsOf(parameters[0] ?? '', '=')
  if (parameters.length > 1 || name !== 'charset' || more !== undefined) return false
  return UTF8.has(value ?? '')
}

const UTF8: ReadonlySet<string> = new Set(['utf-8', 'utf8'].flatMap((name) => [name, `"${name}"`]))

type Encoding = 'br' | 'gzip'

/**
 * Returns the first of the available encodings that `Accept-Encoding` allows; undefined if it allows none. The
 * available encodings are listed best first.
 */
export function encodingFor(
  accepted: string,
  available: readonly Encoding[] = ['br', 'gzip'],
): Encoding | undefined {
  const taken = new Set<string>()
  for (const one of accepted.toLowerCase().split(',')) {
    const [name = '', weight = ''] = partsOf(one, ';')
    if (!isZero(weight)) taken.add(name)
  }
  return available.find((encoding) => taken.has(encoding))
}

/** Returns whether a weight excludes its encoding: `q=0`, `q=0.0`, … */
function isZero(weight: string): boolean {
  const [name, value = ''] = partsOf(weight, '=')
  return name === 'q' && value !== '' && Number(value) === 0
}

function partsOf(text: string, separator: string): string[] {
  return text.split(separator).map((part) => part.trim())
}
