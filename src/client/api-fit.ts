/** Whether an exchange speaks the API that this client was made for, and what is the matter if not. */

import { API_VERSION, parseApiVersion } from '#domain/api-version.ts'

export type ApiFit = {
  readonly fits: boolean
  /** What the exchange says that it speaks; none of an exchange from before versions were named. */
  readonly exchange: string | undefined
  /** What this client was made for. */
  readonly client: string
  /** One sentence, where they do not fit. */
  readonly why: string
}

/** The same major version, and nothing that the exchange does not have yet. */
export function apiFit(exchange: string | undefined, client: string = API_VERSION): ApiFit {
  const why = misfit(exchange, client)
  return { fits: why === '', exchange, client, why }
}

function misfit(exchange: string | undefined, client: string): string {
  const made = `this client was made for API ${client}`
  if (exchange === undefined) return `the exchange does not say which API it speaks; ${made}`
  const theirs = parseApiVersion(exchange)
  const ours = parseApiVersion(client)
  if (theirs === undefined || ours === undefined) {
    return `the exchange speaks API ${exchange}, which is no version; ${made}`
  }
  if (theirs.major !== ours.major) {
    const remedy = theirs.major > ours.major ? 'a newer client is needed' : 'an older one is needed'
    return `the exchange speaks API ${exchange}; ${made}: ${remedy}`
  }
  if (theirs.minor >= ours.minor) return ''
  return `the exchange speaks API ${exchange}; ${made}, and may ask for what is not there yet`
}
