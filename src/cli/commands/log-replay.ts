/** `sibyl log replay`: repeats the matching of the public log and compares the results. */

import { createHash } from 'node:crypto'
import { recoverSigner } from '#client/recover-signer.ts'
import { CommandError, OptionError } from '#devnet/command.ts'
import { type Address, type MarketId, type OrderHash, toAddress } from '#domain/ids.ts'
import { SIGNATURES_LISTED_MAX } from '#domain/limits.ts'
import { orderHash } from '#domain/order-hash.ts'
import { partsOf } from '#domain/parts-of.ts'
import type { SignaturesAnswer } from '#protocol/shapes/transparency.ts'
import type { DelegateList } from '#protocol/shapes/users.ts'
import { permitHash, signatureHash } from '#transparency/log-entries.ts'
import { makeEventReader } from '#transparency/public-event.ts'
import type { PublicOrder } from '#transparency/public-event-shapes.ts'
import { readCheckpoint, verifyEntries } from '#transparency/remote-log.ts'
import { makeReplay, type Replay } from '#transparency/replay.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import { command, READ_OPTIONS } from '../command.ts'
import { readerOf, urlOf } from '../connect.ts'
import { type NamedLog, namedLogs } from '../public-logs.ts'
import { showJson } from '../show.ts'

type OrderOnChain = PublicOrder & { readonly chainId: number }

const hexSha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export const logReplay = command({
  name: 'log replay',
  takes: '',
  about: 'verifies the public log and repeats its matching; reports the first event that differs',
  more:
    'Every fill, price, remainder and return is compared with the result of matching the logged orders. The hash of each order is\n' +
    'computed from its terms, and the signers of orders that have ended are recovered, unless --no-signatures is given.\n' +
    'An order may be signed by a delegate of its trader, or by a rule of a contract account (EIP-1271): signers that are\n' +
    'neither the trader nor a delegate are listed, and ended orders without a signature are counted; --strict makes both\n' +
    'an error.',
  options: {
    key: {
      value: '<keys>',
      help: 'verifier keys that you trust, separated by commas; by default those of the exchange',
    },
    strict: {
      help: 'exits with 1 if an ended order has no signature of its trader or of a delegate',
    },
    'no-signatures': {
      help: 'skips the recovery of the signers, which takes a millisecond per order',
    },
    ...READ_OPTIONS,
  },
  async run({ values, io }) {
    const url = urlOf(values, io)
    const { chains } = await readerOf(values, io).config()
    const domains = new Map(
      chains.map(({ chainId, contracts }) => [
        chainId,
        { chainId, verifyingContract: toAddress(contracts.settlement ?? '') },
      ]),
    )
    const places = new Map<MarketId, string>()
    for (const log of await namedLogs(url, values.key)) {
      const orders: OrderOnChain[] = []
      const { counts, hasEnded } = await replayLog(log, places, (order, chainId) => {
        const domain = domains.get(chainId)
        if (domain === undefined)
          throw new OptionError(
            `the log has orders on chain ${chainId}, which GET /api/v1/config does not list`,
          )
        if (orderHash(order, domain) !== order.orderHash) {
          throw new CommandError(
            `order ${order.orderHash}: this hash in the log is not the hash of the order's terms`,
          )
        }
        if (!values['no-signatures']) orders.push({ ...order, chainId })
      })
      const isStrict = values.strict === true
      const { signers, others, unsigned } = await checkSigners(url, orders, { isStrict, hasEnded })
      const facts = { origin: log.origin, ...counts, signers, others: others.length, unsigned }
      io.out(
        values.json
          ? showJson(facts)
          : `ok  ${log.origin}  ${counts.events} events, ${counts.orders} orders, ${counts.fills} fills, ${signers} signers\n`,
      )
      if (unsigned > 0)
        io.err(
          `the exchange does not publish the signatures of ${unsigned} ended orders, so these were not verified\n`,
        )
      for (const other of others.slice(0, OTHERS_SHOWN_MAX)) io.err(`${other}\n`)
      if (others.length > OTHERS_SHOWN_MAX) {
        io.err(
          `and ${others.length - OTHERS_SHOWN_MAX} more orders that neither the trader nor a delegate signed\n`,
        )
      }
    }
    return 0
  },
})

/**
 * Replays one log. `places` is shared by all logs, and maps each market to the log that opened it. Throws if two logs
 * open the same market, because the order of that market's matches would be undefined.
 */
async function replayLog(
  log: NamedLog,
  places: Map<MarketId, string>,
  seen: (order: PublicOrder, chainId: number) => void,
) {
  const read = makeEventReader()
  const replay = makeReplay((order, { chainId }) => seen(order, chainId))
  const checkpoint = await readCheckpoint(log)
  await verifyEntries(log, checkpoint, new TreeBuilder(treeHasher), (entry, index) => {
    const events = read(entry)
    const [first] = events
    if (index === 0 && first !== undefined && first.offset !== 1) {
      throw new CommandError(
        `the log ${log.origin} begins at offset ${first.offset}, not at offset 1: the earlier ` +
          'events are not public, so the log cannot be replayed',
      )
    }
    for (const event of events) {
      replay.apply(event)
      if (event.type !== 'MarketOpened') continue
      const other = places.get(event.marketId)
      if (other !== undefined) {
        throw new CommandError(
          `market ${event.marketId} is in two logs, ${other} and ${log.origin}, but each market ` +
            'must be in one log only',
        )
      }
      places.set(event.marketId, log.origin)
    }
  })
  return replay
}

const OTHERS_SHOWN_MAX = 20

/**
 * Recovers the signers of orders that have ended. `others` lists orders that neither the trader nor a delegate signed.
 * `unsigned` counts ended orders whose signature the exchange does not publish. With `isStrict`, throws in both cases.
 */
async function checkSigners(
  url: string,
  orders: readonly OrderOnChain[],
  { isStrict, hasEnded }: { readonly isStrict: boolean; readonly hasEnded: Replay['hasEnded'] },
): Promise<{
  readonly signers: number
  readonly others: readonly string[]
  readonly unsigned: number
}> {
  let signers = 0
  let unsigned = 0
  const others: string[] = []
  const delegatesOf = makeDelegates(url)
  for (const some of partsOf(orders, SIGNATURES_LISTED_MAX)) {
    const part = new Map<string, OrderOnChain>(some.map((order) => [order.orderHash, order]))
    const asked = [...part.keys()].join(',')
    const response = await fetch(`${url}/api/v1/transparency/signatures?orders=${asked}`)
    if (!response.ok)
      throw new CommandError(`the request for signatures failed: HTTP status ${response.status}`)
    const answer = (await response.json()) as SignaturesAnswer
    for (const revealed of answer.orders) {
      const order = part.get(revealed.orderHash)
      if (order === undefined) continue
      part.delete(revealed.orderHash)
      const signer = await signerOf(order, revealed)
      signers++
      if (signer === order.trader) continue
      if (signer !== undefined && (await delegatesOf(order)).has(signer)) continue
      const other = `order ${order.orderHash} is not signed by its trader ${order.trader} or a delegate (signer: ${signer ?? 'no recoverable key'})`
      if (isStrict) throw new CommandError(other)
      others.push(other)
    }
    for (const { marketId, orderHash } of part.values()) {
      if (!hasEnded(marketId, orderHash)) continue
      unsigned++
      if (isStrict) {
        throw new CommandError(
          `order ${orderHash} has ended, but the exchange does not publish the signature of the order`,
        )
      }
    }
  }
  return { signers, others, unsigned }
}

/** Maximum number of traders whose delegates are remembered. */
const TRADERS_KEPT_MAX = 10_000

/** Returns a function that requests the delegates of an order's trader from the exchange. */
function makeDelegates(url: string): (order: OrderOnChain) => Promise<ReadonlySet<string>> {
  const kept = new Map<string, ReadonlySet<string>>()
  return async ({ trader, chainId }) => {
    const name = `${trader} ${chainId}`
    const known = kept.get(name)
    if (known !== undefined) return known
    const path = `/api/v1/users/${trader}/delegates?chain_id=${chainId}`
    const response = await fetch(url + path)
    if (!response.ok)
      throw new CommandError(`the request for delegates failed: HTTP status ${response.status}`)
    const { delegates } = (await response.json()) as DelegateList
    const found = new Set(delegates.map(({ delegate }) => delegate.toLowerCase()))
    if (kept.size >= TRADERS_KEPT_MAX) kept.clear()
    kept.set(name, found)
    return found
  }
}

/**
 * Returns the address that signed an order; undefined if the signature is malformed. Throws if the signature or the
 * permit does not match its hash in the log.
 */
async function signerOf(
  order: PublicOrder,
  { signature, permit }: SignaturesAnswer['orders'][number],
): Promise<Address | undefined> {
  const named = `order ${order.orderHash as OrderHash}`
  if (signatureHash(signature, hexSha256) !== order.signatureHash) {
    throw new CommandError(
      `${named}: the exchange publishes a signature whose hash is not the signature hash in the ` +
        'log',
    )
  }
  // The exchange hides a permit until the permit has expired, so a missing permit is not an error.
  if (permit !== undefined && permitHash(permit, hexSha256) !== order.permitHash) {
    throw new CommandError(
      `${named}: the exchange publishes a permit whose hash is not the permit hash in the log`,
    )
  }
  return recoverSigner(order.orderHash, signature)
}
