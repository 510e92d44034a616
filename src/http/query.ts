/**
 * Parses path and query into the parameters of a route. An unknown or repeated parameter is rejected, because a
 * misspelt filter would otherwise be ignored silently.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import { clipped } from './field-path.ts'
import type { Parameter } from './validate.ts'

/** Parameters by name, in canonical form. */
export type Values = Record<string, unknown>

/** Parses a query into `into`. Returns a rejection if a parameter is invalid or missing, otherwise undefined. */
export function readQuery(
  text: string,
  parameters: readonly Parameter[],
  into: Values,
): Rejection | undefined {
  const length = text.length
  for (let start = 0; start < length; ) {
    let end = text.indexOf('&', start)
    if (end === -1) end = length
    if (end > start) {
      let equals = text.indexOf('=', start)
      if (equals === -1 || equals > end) equals = end
      const parameter = parameterAt(text, start, equals, parameters)
      if (parameter === undefined) return unknownParameter(text.slice(start, equals))
      const { name } = parameter
      if (into[name] !== undefined) {
        return reject('INVALID_FIELD', name, `${name} must not be given more than once`)
      }
      const written = equals === end ? '' : text.slice(equals + 1, end)
      const rejection = readParameter(parameter, spaced(written), into)
      if (rejection !== undefined) return rejection
    }
    start = end + 1
  }
  for (const { name, required } of parameters) {
    if (required && into[name] === undefined) return reject('MISSING_FIELD', name)
  }
  return undefined
}

/** Decodes, checks and normalises one parameter. */
export function readParameter(
  parameter: Parameter,
  written: string,
  into: Values,
): Rejection | undefined {
  const { name, fits, flaw, normalise } = parameter
  const value = decoded(written)
  if (value === undefined) {
    return reject('INVALID_FIELD', name, `${name} must have a valid percent-encoding`)
  }
  // The character NUL is rejected, because SQLite ends a statement at it.
  if (value.includes('\0')) {
    return reject('INVALID_FIELD', name, `${name} must not contain the character NUL`)
  }
  if (!fits(value)) return flaw(value)
  into[name] = normalise === undefined ? value : normalise(value)
  return undefined
}

function parameterAt(
  text: string,
  start: number,
  end: number,
  parameters: readonly Parameter[],
): Parameter | undefined {
  for (const parameter of parameters) {
    const { name } = parameter
    if (name.length === end - start && text.startsWith(name, start)) return parameter
  }
  const written = decoded(spaced(text.slice(start, end)))
  return parameters.find(({ name }) => name === written)
}

function unknownParameter(written: string): Rejection {
  const field = clipped(decoded(spaced(written)) ?? written)
  return reject('INVALID_FIELD', field, `${field} is not a parameter of this path`)
}

function spaced(text: string): string {
  return text.includes('+') ? text.replaceAll('+', ' ') : text
}

function decoded(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
