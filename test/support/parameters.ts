/** Counts the parameters of functions in a file, from its text. */

/** A list of parameters of a function, or of a function's type. */
export type Parameters = { readonly name: string; readonly count: number }

const COMMENTS_AND_TEXTS =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g
const TYPED = /^\s*(?:\.\.\.)?(?:[\w$]+\??|\{[\s\S]*\}|\[[\s\S]*\])\s*[:=]/
const NAME = /([\w$#]+)(?:<[^()]*>|\??:|\s*=(?:\s*async)?)?\s*$/

/** Returns the parameter lists with more than `max` entries. */
export function longParameterLists(source: string, max: number): Parameters[] {
  const text = source.replace(COMMENTS_AND_TEXTS, (part) => part.replace(/[^\n]/g, '_'))
  const found: Parameters[] = []
  for (let at = text.indexOf('('); at >= 0; at = text.indexOf('(', at + 1)) {
    const { parts, end } = listAt(text, at)
    if (parts.length <= max) continue
    // Skips lists of arguments: they have no types, and no body or arrow follows them.
    const follows = text.slice(end + 1).trimStart()
    const isOne = parts.every((part) => TYPED.test(part)) || /^(?:=>|\{)/.test(follows)
    if (!isOne) continue
    found.push({ name: NAME.exec(text.slice(0, at))?.[1] ?? '', count: parts.length })
  }
  return found
}

/** Returns the entries of the list that opens at `at`, and the index of its end. */
function listAt(text: string, at: number): { parts: string[]; end: number } {
  const parts: string[] = []
  let depth = 0
  let types = 0
  let from = at + 1
  let end = at
  for (; end < text.length; end++) {
    const sign = text[end]!
    if ('([{'.includes(sign)) depth++
    else if (')]}'.includes(sign)) {
      depth--
      if (depth === 0) break
    } else if (sign === '<' && /\w/.test(text[end - 1]!)) types++
    else if (sign === '>' && text[end - 1] !== '=' && types > 0) types--
    else if (sign === ',' && depth === 1 && types === 0) {
      parts.push(text.slice(from, end))
      from = end + 1
    }
  }
  const last = text.slice(from, end)
  if (last.trim() !== '') parts.push(last)
  return { parts, end }
}
