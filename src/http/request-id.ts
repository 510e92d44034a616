/**
 * Id of a request in answers and logs. A well-formed id from the client is kept, so that a trace can begin outside the
 * exchange. Otherwise the front makes an id that is unique across threads and restarts.
 */

import { randomBytes } from 'node:crypto'

const SANE = /^[A-Za-z0-9._-]{1,64}$/

export function makeRequestIds(): (fromClient: string) => string {
  const prefix = randomBytes(6).toString('hex')
  let count = 0
  return (fromClient) => {
    if (fromClient !== '' && SANE.test(fromClient)) return fromClient
    count++
    return `${prefix}-${count}`
  }
}
