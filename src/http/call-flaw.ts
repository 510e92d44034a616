/** Validates the raw parameters and body of a call. */

import type { Rejection } from '#domain/rejection.ts'
import type { Call } from './call.ts'
import { readParameter, readQuery, type Values } from './query.ts'

/**
 * Validates parameters and body, and replaces them with the normalised values. Returns the first flaw, if
 * any.
 */
export function flawOf(call: Call): Rejection | undefined {
  const { compiled, request, rawPath, rawQuery } = call
  const { params, query, body } = compiled
  if (params.length > 0) {
    const values: Values = {}
    for (let at = 0; at < params.length; at++) {
      const rejection = readParameter(params[at]!, rawPath[at]!, values)
      if (rejection !== undefined) return rejection
    }
    request.path = values
  }
  if (rawQuery !== '' || compiled.queryRequired) {
    const values: Values = {}
    const rejection = readQuery(rawQuery, query, values)
    if (rejection !== undefined) return rejection
    request.query = values
  }
  if (body !== undefined && (request.body !== undefined || !compiled.bodyOptional)) {
    if (!body.fits(request.body)) return body.flaw(request.body)
    body.normalise?.(request.body)
  }
  return undefined
}
