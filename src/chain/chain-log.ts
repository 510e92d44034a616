/** Plain-data form of an EVM log, with lower-case hex, and the functions that decode a log by an ABI. */

import {
  type Abi,
  type ContractEventName,
  type DecodeEventLogReturnType,
  decodeEventLog,
  type Hex,
  toEventSelector,
} from 'viem'
import type { Address } from '#domain/ids.ts'

export type ChainLog = {
  readonly address: Address
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly blockNumber: number
  readonly blockHash: string
  readonly txHash: string
  readonly logIndex: number
}

/** Position of an event on the chain. */
export type Place = {
  readonly blockNumber: number
  readonly blockHash: string
  readonly txHash: string
  readonly logIndex: number
}

export function placeOf({ blockNumber, blockHash, txHash, logIndex }: ChainLog): Place {
  return { blockNumber, blockHash, txHash, logIndex }
}

/** Events of an ABI by their first topic. Each event is stored as an ABI with only that event. */
const eventsOfAbi = new WeakMap<Abi, Map<string, Abi>>()

/** Decodes a log as an event of the contract's ABI. Returns undefined if the log is not an event of that ABI. */
export function decoded<const A extends Abi>(
  abi: A,
  { topics, data }: Pick<ChainLog, 'topics' | 'data'>,
): DecodeEventLogReturnType<A> | undefined {
  let events = eventsOfAbi.get(abi)
  if (events === undefined) {
    events = eventsByTopic(abi)
    eventsOfAbi.set(abi, events)
  }
  const event = events.get(topics[0] ?? '')
  if (event === undefined) return undefined
  try {
    // `event` is an ABI with only this event. With the whole ABI, viem would hash the signature of every event for
    // every log.
    return decodeEventLog({ abi: event as A, topics: topics as [Hex, ...Hex[]], data })
  } catch {
    return undefined
  }
}

/** Returns a map from first topic to event name, for the given events of an ABI. */
export function topicsOf<const A extends Abi>(
  abi: A,
  names: readonly ContractEventName<A>[],
): ReadonlyMap<string, string> {
  const topics = new Map<string, string>()
  for (const item of abi) {
    if (item.type !== 'event' || !(names as readonly string[]).includes(item.name)) continue
    topics.set(toEventSelector(item), item.name)
  }
  return topics
}

/**
 * Converts a uint64 of a contract, such as seconds or a price, to a number. Values beyond 2^53 are capped; they do not
 * occur in practice.
 */
export function safeNumber(value: bigint): number {
  const most = BigInt(Number.MAX_SAFE_INTEGER)
  return Number(value > most ? most : value)
}

function eventsByTopic(abi: Abi): Map<string, Abi> {
  const events = new Map<string, Abi>()
  for (const item of abi) if (item.type === 'event') events.set(toEventSelector(item), [item])
  return events
}
