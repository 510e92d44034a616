/**
 * `npm run bench -- auth`: the cost of bearer tokens. Sends signed orders over HTTP to two exchanges in the same run.
 * One requires a fresh token with each request, the other requires none. With `--kept`, one token is valid for all
 * orders of a round, so the exchange looks it up instead of verifying it. With `--batch`, each request carries ten
 * orders. Also prints the CPU time per order at both exchanges, the CPU time of checking one token, and how much of it
 * the Ed25519 verification takes.
 */

import { createPublicKey, verify } from 'node:crypto'
import { registerApiKey } from '#client/api-keys.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'
import { makeAuthenticator } from '#http/auth.ts'
import { publicKeyOf } from '#http/key-cache.ts'
import { makeNonceLedger } from '#http/nonce-ledger.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { systemClock } from '#runtime/clock.ts'
import { type Exchange, openExchange } from '../test/support/exchange.ts'
import { mintToken, type TokenKey, tokenKeyOf } from './bearer-tokens.ts'
import { median, progress, quick, report, runBench } from './bench.ts'
import { openDriver, type Request, writeRequest } from './http-driver.ts'
import { makeTrader, type SignedOrder, signOrders } from './signed-orders.ts'

const CONNECTIONS = 128
const PER_ROUND = quick ? 3_000 : 10_000
const ROUNDS = quick ? 3 : 7
const TOKENS = quick ? 2_000 : 5_000
const KEPT = process.argv.includes('--kept')
const PER_REQUEST = process.argv.includes('--batch') ? 10 : 1
const WALLET = `0x${'0'.repeat(62)}0b` as const

type Side = { readonly exchange: Exchange; readonly cpuUs: number[] }
type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
type Markets = { markets: { id: MarketId }[] }

async function open(bearer: boolean): Promise<Side> {
  const environment = {
    SIBYL_LOG_LEVEL: 'error',
    SIBYL_AUTH_BEARER: String(bearer),
    SIBYL_SINGLE_USE_NONCE: String(!KEPT),
  }
  return { exchange: await openExchange({ environment }), cpuUs: [] }
}

async function cpuSeconds({ exchange }: Side): Promise<number> {
  const text = await (await fetch(`${exchange.url}/metrics`)).text()
  return Number(/^process_cpu_seconds_total\S* (\S+)/m.exec(text)?.[1])
}

async function place(side: Side, requests: readonly Request[], counts: boolean): Promise<number> {
  const orders = requests.length * PER_REQUEST
  const before = await cpuSeconds(side)
  // Opens new connections for each measurement, because an exchange closes connections that are idle while
  // the other side is measured.
  const driver = await openDriver(side.exchange.url, CONNECTIONS)
  const elapsedMs = await driver.closedLoop(requests, ({ status, body }) => {
    // A batch gets the status 200 even if one of its orders is refused. So the body is also searched for an error code.
    if (status !== 200 || body.includes('"code"')) throw new Error(`${status}: ${body}`)
  })
  driver.close()
  if (counts) side.cpuUs.push((((await cpuSeconds(side)) - before) * 1e6) / orders)
  return (orders * 1_000) / elapsedMs
}

function cpuUsOf(count: number, before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / count
}

/**
 * Returns the CPU times of checking a token, of the verification within that check, and of recording the token's nonce.
 */
async function tokenCosts(tokenKey: TokenKey, publicKey: string) {
  const tokens = Array.from({ length: TOKENS }, () => mintToken(tokenKey))
  const address = `0x${'11'.repeat(20)}` as Address
  const authenticator = makeAuthenticator({
    findKey: async (id) => ({
      id,
      address,
      name: '',
      publicKey,
      createdAtMs: 0,
      expiresAtSec: null,
      revokedAtMs: null,
    }),
    nonces: makeNonceLedger(makeSharedTable(TOKENS * 4, 'secret')),
    singleUse: true,
    clock: systemClock,
    startedAtMs: 0,
  })
  let before = process.cpuUsage()
  for (let from = 0; from < tokens.length; from += CONNECTIONS) {
    const some = tokens.slice(from, from + CONNECTIONS)
    const answers = await Promise.all(
      some.map((token) => authenticator.identify(`Bearer ${token}`)),
    )
    if (!answers.every((answer) => 'keyId' in answer)) throw new Error('a token was refused')
  }
  const whole = cpuUsOf(TOKENS, before)
  const key = publicKeyOf(publicKey)
  const parts = tokens.map((token) =>
    token.split('.').map((part) => Buffer.from(part, 'base64url')),
  )
  before = process.cpuUsage()
  for (const [payload, signature] of parts) {
    if (!verify(null, payload!, key, signature!))
      throw new Error('the signature of a token is not valid')
  }
  const bare = cpuUsOf(TOKENS, before)
  const ledger = makeNonceLedger(makeSharedTable(TOKENS * 4, 'secret'))
  before = process.cpuUsage()
  for (const token of tokens) ledger.use(tokenKey.id, token.slice(0, 32) + token.slice(-32), 2, 1)
  return { whole, bare, nonce: cpuUsOf(TOKENS, before) }
}

const bearer = await open(true)
const free = await open(false)
try {
  const read = async <T>(path: string): Promise<T> =>
    (await fetch(free.exchange.url + path)).json() as Promise<T>
  const [chain] = (await read<Config>('/api/v1/config')).chains
  if (chain === undefined) throw new Error('the exchange has no chain configured')
  const verifyingContract = toAddress(chain.contracts.settlement)
  const domain = { chainId: chain.chainId, verifyingContract }
  const markets = (await read<Markets>('/api/v1/markets')).markets.map(({ id }) => id)
  const traders = Array.from({ length: 100 }, makeTrader)
  const key = await registerApiKey({ url: bearer.exchange.url }, WALLET)
  const tokenKey = tokenKeyOf(key.id, key.privateKey)
  const orders = (): SignedOrder[] => {
    progress('signing orders')
    return signOrders({ count: PER_ROUND, traders, markets, domain })
  }
  const requestsOf = (signed: readonly SignedOrder[], headers: () => Record<string, string>) =>
    Array.from({ length: signed.length / PER_REQUEST }, (_, at) => {
      const some = signed.slice(at * PER_REQUEST, (at + 1) * PER_REQUEST)
      return PER_REQUEST === 1
        ? writeRequest('POST', '/api/v1/orders', JSON.stringify(some[0]), headers())
        : writeRequest('POST', '/api/v1/orders/batch', JSON.stringify({ orders: some }), headers())
    })

  const result = await runBench({
    bench: KEPT ? 'auth, kept tokens' : PER_REQUEST > 1 ? 'auth, ten orders a token' : 'auth',
    unit: 'accepted orders/s with a bearer token',
    peer: 'the same without tokens',
    bar: 0.6,
    rounds: ROUNDS,
    warmups: 1,
    ours({ warmup }) {
      const kept = mintToken(tokenKey)
      const headers = () => ({ authorization: `Bearer ${KEPT ? kept : mintToken(tokenKey)}` })
      return place(bearer, requestsOf(orders(), headers), !warmup)
    },
    theirs: ({ warmup }) =>
      place(
        free,
        requestsOf(orders(), () => ({})),
        !warmup,
      ),
  })
  const [withToken, without] = [median(bearer.cpuUs), median(free.cpuUs)]
  const { x = '' } = createPublicKey(tokenKey.privateKey).export({ format: 'jwk' })
  const publicKey = Buffer.from(x, 'base64url').toString('hex')
  const { whole, bare, nonce } = await tokenCosts(tokenKey, publicKey)
  process.stdout.write(
    `server CPU per order: ${withToken.toFixed(0)} µs with a token, ${without.toFixed(0)} µs without ` +
      `(${(withToken - without).toFixed(0)} µs more); a token alone ${whole.toFixed(0)} µs, of which ` +
      `${bare.toFixed(0)} µs are the Ed25519 verification and ${nonce.toFixed(1)} µs its nonce\n`,
  )
  report(result)
} finally {
  for (const { exchange } of [bearer, free]) await exchange.dispose()
}
