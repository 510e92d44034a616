/**
 * Attacks on the HTTP front from one address. Each attack is as fast as the default limits allow, and ends
 * after the given number of seconds. The attackers discard all answers, so that they use less CPU time than
 * the exchange under attack.
 */

import { Agent, type IncomingMessage, request } from 'node:http'

export type HttpAttackFigures = {
  readonly sent: number
  /** Number of requests by the status of their answer. Status 0 counts requests without an answer. */
  readonly statuses: Readonly<Record<string, number>>
  readonly mebibytesRead: number
}

type Shot = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

const JSON_TYPE = { 'content-type': 'application/json' }
const PULSE_MS = 20
const CONNECTIONS = 50
/** Number of reads that one address may send per second. `WRITES_PER_SECOND` limits its writes. */
const READS_PER_SECOND = 500
const WRITES_PER_SECOND = 100

const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at))

/** Sends media types for which a naive regular expression takes quadratic time. */
export function longContentTypes(url: string, address: string, seconds: number) {
  const shot: Shot = {
    ...{ method: 'POST', path: '/api/v1/orders', body: '{}' },
    headers: { 'content-type': `application/json${' '.repeat(3_800)}x` },
  }
  return pound(url, address, { seconds, perSecond: WRITES_PER_SECOND, shots: [shot] })
}

/** Sends bodies that fit no schema: unknown keys, empty items, fractions, duplicate keys. */
export function misfitBodies(url: string, address: string, seconds: number) {
  const keys = (count: number) => `{${times(count, (at) => `"k${at}":1`).join(',')}}`
  const list = (item: string, count: number) => `{"orders":[${times(count, () => item).join(',')}]}`
  const bodies: [path: string, body: string][] = [
    ['/api/v1/orders/validate', keys(5_500)],
    ['/api/v1/orders/validate', keys(400)],
    ['/api/v1/orders/validate', `{"order":${keys(400)},"signature":{}}`],
    ['/api/v1/orders/batch', list('{}', 20_000)],
    ['/api/v1/orders/batch', list('{"order":{},"signature":1}', 2_000)],
    ['/api/v1/orders/batch', list('1.5', 16_000)],
    ['/api/v1/orders', `{"order":{"price":1,"price":2},"signature":"${'x'.repeat(3_000)}"}`],
  ]
  const shots = bodies.map(
    ([path, body]): Shot => ({ method: 'POST', path, headers: JSON_TYPE, body }),
  )
  return pound(url, address, { seconds, perSecond: WRITES_PER_SECOND, shots })
}

/** Requests the whole list of markets: plain, compressed, and with a search. */
export function marketLists(url: string, address: string, seconds: number) {
  const path = '/api/v1/markets'
  const shots: Shot[] = [
    { method: 'GET', path },
    { method: 'GET', path, headers: { 'accept-encoding': 'gzip' } },
    { method: 'GET', path: `${path}?search=nothing%20has%20these%20words` },
  ]
  return pound(url, address, { seconds, perSecond: READS_PER_SECOND, shots })
}

/** Requests the largest files that the front serves: its documents and scripts. */
export function largeFiles(url: string, address: string, seconds: number) {
  const shots = ['/openapi.json', '/docs/swagger-ui-bundle.js', '/docs/swagger-ui.css'].map(
    (path): Shot => ({ method: 'GET', path }),
  )
  return pound(url, address, { seconds, perSecond: READS_PER_SECOND, shots })
}

/**
 * Sends the requests in turn at a steady rate. If no connection is free, requests wait. At most `perSecond` requests
 * wait, and further ones are dropped.
 */
async function pound(
  url: string,
  address: string,
  plan: { readonly seconds: number; readonly perSecond: number; readonly shots: readonly Shot[] },
): Promise<HttpAttackFigures> {
  const { hostname, port } = new URL(url)
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  const statuses: Record<string, number> = {}
  let [sent, underWay, bytes] = [0, 0, 0]

  function fire({ method, path, headers = {}, body = '' }: Shot): void {
    const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) }
    const place = { host: hostname, port, localAddress: address, agent }
    const going = request({ ...place, method, path, headers: { ...headers, ...length } })
    sent++
    underWay++
    let status = 0
    going.on('response', (response: IncomingMessage) => {
      status = response.statusCode ?? 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      response.on('error', () => undefined)
    })
    going.on('error', () => undefined)
    going.on('close', () => {
      underWay--
      statuses[status] = (statuses[status] ?? 0) + 1
    })
    going.end(body)
  }

  const endMs = performance.now() + plan.seconds * 1_000
  let due = 0
  for (let turn = 0; performance.now() < endMs; ) {
    await new Promise((resolve) => setTimeout(resolve, PULSE_MS))
    due = Math.min(due + (plan.perSecond * PULSE_MS) / 1_000, plan.perSecond)
    for (; due >= 1 && underWay < CONNECTIONS; due--) fire(plan.shots[turn++ % plan.shots.length]!)
  }
  agent.destroy()
  return { sent, statuses, mebibytesRead: Math.round(bytes / 1_048_576) }
}
