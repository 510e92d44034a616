/** Checks whether an exchange's API version fits this client, and explains the difference if not. */

import { API_VERSION, parseApiVersion } from '#domain/api-version.ts'

export type ApiFit = {
  readonly fits: boolean
  /** Version of the exchange's API; undefined if the exchange publishes no version. */
  readonly exchange: string | undefined
  /** API version of this client. */
  readonly client: string
  /** One sentence about the difference if the versions do not fit; otherwise empty. */
  readonly why: string
}

/**
 * Compares the versions. The versions fit if the major versions are equal and the exchange's minor version is not below
 * the client's.
 */
export function apiFit(exchange: string | undefined, client: string = API_VERSION): ApiFit {
  const why = misfit(exchange, client)
  return { fits: why === '', exchange, client, why }
}

function misfit(exchange: string | undefined, client: string): string {
  const made = `this client was made for API ${client}`
  if (exchange === undefined) return `the exchange does not publish its API version; ${made}`
  const theirs = parseApiVersion(exchange)
  const ours = parseApiVersion(client)
  if (theirs === undefined || ours === undefined) {
    return `the exchange reports API version ${exchange}, which is not a version number; ${made}`
  }
  if (theirs.major !== ours.major) {
    const remedy =
      theirs.major > ours.major ? 'a newer client is needed' : 'an older client is needed'
    return `the exchange has API version ${exchange}; ${made}: ${remedy}`
  }
  if (theirs.minor >= ours.minor) return ''
  return `the exchange has API version ${exchange}; ${made}, and may use routes that the exchange does not have yet`
}
