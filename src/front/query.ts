/**
 * Reads a query string into the parameters that a route knows. A parameter that it does not know,
 * or that is there twice, is refused: a misspelt filter must not look like no filter.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import { clipped } from './field-path.ts'

export type Query = Record<string, string>

/** Returns the rejection, or undefined after filling `into`. */
export function readQuery(
  text: string,
  known: ReadonlySet<string>,
  into: Query,
): Rejection | undefined {
  const length = text.length
  for (let start = 0; start < length; ) {
    let end = text.indexOf('&', start)
    if (end === -1) end = length
    if (end > start) {
      let equals = text.indexOf('=', start)
      if (equals === -1 || equals > end) equals = end
      const name = decoded(text.slice(start, equals))
      const value = equals === end ? '' : decoded(text.slice(equals + 1, end))
      if (name === undefined) return reject('INVALID_FIELD', undefined, 'the query is malformed')
      if (!known.has(name)) return unknownParameter(name)
      if (value === undefined) {
        return reject('INVALID_FIELD', name, `${name} is not valid percent-encoding`)
      }
      if (into[name] !== undefined) {
        return reject('INVALID_FIELD', name, `${name} is there more than once`)
      }
      into[name] = value
    }
    start = end + 1
  }
  return undefined
}

function unknownParameter(name: string): Rejection {
  const field = clipped(name)
  return reject('INVALID_FIELD', field, `${field} is not a parameter of this path`)
}

function decoded(text: string): string | undefined {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text
  return decodedPart(spaced)
}

/** Percent-decodes a path segment or a query part; undefined when it cannot be. */
export function decodedPart(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
