/**
 * Places synthetic orders before a front serves clients, so that V8 has compiled the code for orders before the first
 * trader’s order arrives. The synthetic orders pass through local sockets, a scratch server, the verify pool and a
 * channel whose other end accepts every order. No market thread takes part, and the market of the orders does not
 * exist.
 */

import { connect, type Socket } from 'node:net'
import { MessageChannel } from 'node:worker_threads'
import { makeOrderService } from '#api/orders/order-service.ts'
import type { OrderVerifier } from '#api/orders/order-verifier.ts'
import { placeOrder } from '#api/orders/place-order.ts'
import type { Log } from '#config/logging.ts'
import type { Settings } from '#config/settings-schema.ts'
import { channelOptions, contractsOf } from '#config/thread-data.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import type { Order } from '#domain/order.ts'
import { makeOrderHasher, type OrderDomain } from '#domain/order-hash.ts'
import { type Front, type FrontOptions, startFront } from '#http/server.ts'
import { makeBoard } from '#live/market-board.ts'
import { makeGateway } from '#live/market-gateway.ts'
import type { MarketProtocol, OrderAccepted } from '#protocol/market.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { inTime } from '#runtime/in-time.ts'
import { makeRef } from '#runtime/ref.ts'
import { makeWasmKeccak } from '#verify/wasm-keccak.ts'

const CONNECTIONS = 32
const WARM_UP_MS_MAX = 3_000
const HOST = '127.0.0.1'
const DAY_SEC = 86_400

/**
 * Address of the private key 1, which is no secret. Its public key is the generator point of the curve. The next two
 * constants are needed to sign: the order of the curve, and the generator's x coordinate.
 */
const TRADER = '0x7e5f4552091a69125d5dfcb7b8c2659029395bdf' as Address
const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const GENERATOR_X = 0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n

/** Id of a market that cannot exist: ids of markets are hashes, and none is zero. */
const SCRATCH_ID = `0x${'0'.repeat(64)}` as MarketId

const hexOf = (value: bigint): string => value.toString(16).padStart(64, '0')

/**
 * Signs with the private key 1 and the nonce 1: `r` is the generator's x coordinate, and `s` is the sum of the digest
 * and `r`.
 */
function signatureOf(digest: Uint8Array): string {
  const s = (BigInt(`0x${Buffer.from(digest).toString('hex')}`) + GENERATOR_X) % CURVE_ORDER
  const isHigh = 2n * s > CURVE_ORDER
  return `0x${hexOf(GENERATOR_X)}${hexOf(isHigh ? CURVE_ORDER - s : s)}${isHigh ? '1c' : '1b'}`
}

/** Returns HTTP requests that place synthetic orders. */
function requestsOf(count: number, domain: OrderDomain, nowSec: number): string[] {
  const hash = makeOrderHasher(domain, makeWasmKeccak())
  return Array.from({ length: count }, (_, number) => {
    const order = {
      marketId: SCRATCH_ID,
      trader: TRADER,
      side: number % 2,
      outcome: (number >> 1) % 2,
      price: 400_000 + 100 * (number % 2_000),
      size: 1_000_000 * (1 + (number % 50)),
      nonce: String(number),
      expiration: String(nowSec + DAY_SEC),
      makerFeeRecipient: ZERO_ADDRESS,
    } as Order
    const body = JSON.stringify({ order, signature: signatureOf(hash(order)) })
    return (
      `POST /api/v1/orders HTTP/1.1\r\nhost: ${HOST}\r\ncontent-type: application/json\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`
    )
  })
}

/**
 * Sends the requests over some connections, one after another on each connection. Rejects if a request is not
 * accepted.
 */
function send(port: number, requests: readonly string[], sockets: Set<Socket>): Promise<void> {
  const done = Promise.withResolvers<void>()
  let sent = 0
  for (let each = 0; each < CONNECTIONS; each++) {
    const socket = connect(port, HOST)
    sockets.add(socket)
    const next = (): void => {
      const request = requests[sent++]
      if (request === undefined) socket.end()
      else socket.write(request)
    }
    socket.on('connect', next)
    socket.on('data', (bytes) => {
      const answer = bytes.toString('latin1')
      if (!answer.startsWith('HTTP/1.1 ')) return
      if (answer.startsWith('HTTP/1.1 200')) next()
      else done.reject(new Error(`a synthetic order got an unexpected answer: ${answer}`))
    })
    socket.on('error', done.reject)
    socket.on('close', () => {
      sockets.delete(socket)
      if (sockets.size === 0) done.resolve()
    })
  }
  return done.promise
}

/** Makes a channel with both ends in this thread; the second end accepts every order. */
function openScratchMarket(settings: Settings) {
  const { port1, port2 } = new MessageChannel()
  const options = { ...channelOptions(settings), forms: MARKET_FORMS }
  const other = new Channel(port2, options, {
    received(_type, message, replyTo) {
      const { order } = message as MarketProtocol['PlaceOrder']['takes']
      const accepted: OrderAccepted = {
        orderHash: order.orderHash,
        status: 'accepted',
        matches: 0,
        timestamp: Math.floor(systemClock.nowMs() / 1_000),
      }
      other.reply(replyTo, accepted)
    },
  })
  const ref = makeRef<MarketThreadProtocol>()
  ref.replace(new Channel(port1, options, { received() {} }))
  return ref
}

/**
 * Places synthetic orders. Resolves when all of them were answered, or after `limitMs`. Never rejects,
 * because a front without warm-up can serve too.
 */
export async function warmUpFront(options: {
  readonly settings: Settings
  readonly verifier: OrderVerifier
  readonly front: Pick<FrontOptions, 'info' | 'log'> & {
    readonly settings: Omit<FrontOptions['settings'], 'host' | 'port'>
  }
  readonly log: Log
  /** Maximum time of the warm-up. After this time the front serves clients, even if synthetic orders are left. */
  readonly limitMs?: number
  /** Called with the scratch server, which must be closed before the thread exits. */
  readonly opened: (scratch: Front) => void
}): Promise<void> {
  const { settings, verifier, log } = options
  const [chain] = settings.chains
  if (settings.markets.warmUpOrders === 0 || chain === undefined) return
  const nowSec = Math.floor(systemClock.nowMs() / 1_000)
  const board = makeBoard({ isWhole: () => true, isCurrent: () => true })
  const market: Market = {
    id: SCRATCH_ID,
    ...{ question: '', description: '', category: 'general', quick: false },
    ...{ contractAddress: ZERO_ADDRESS, maker: ZERO_ADDRESS, chainId: chain.chainId },
    ...{ expiration: Number.MAX_SAFE_INTEGER, createdAt: 0 },
  }
  const none = [[], []] as const
  board.load({ market, seq: 1, closed: undefined, updatedAtMs: 0, bids: none, asks: none })
  const ref = openScratchMarket(settings)
  const seqOf = (marketId: MarketId) => board.markets.get(marketId)?.seq
  const gateway = makeGateway([ref], () => 0, systemClock, { seqOf })
  const orders = makeOrderService({
    ...{ board, gateway, verifier, clock: systemClock },
    expirationDaysMax: settings.orders.expirationDaysMax,
  })
  const sockets = new Set<Socket>()
  let scratch: Front | undefined
  try {
    scratch = await startFront({
      ...options.front,
      routes: [placeOrder(orders)],
      operation: 'apart',
      settings: { ...options.front.settings, sharePort: false, host: HOST, port: 0 },
      services: { readiness: () => ({}) },
    })
    options.opened(scratch)
    const domain = { chainId: chain.chainId, verifyingContract: contractsOf(chain).settlement }
    const requests = requestsOf(settings.markets.warmUpOrders, domain, nowSec)
    await inTime(send(scratch.port, requests, sockets), options.limitMs ?? WARM_UP_MS_MAX)
  } catch (error) {
    log.warn({ err: error }, 'synthetic orders failed; the first orders will be slower')
  } finally {
    for (const socket of sockets) socket.destroy()
    await scratch?.close({ drainMs: 0 })
    ref.close()
  }
}
