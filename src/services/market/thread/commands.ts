/**
 * Passes commands to the hosts of a market thread. Each partition has one host; several partitions may share a host.
 */

import { partitionOf, type Topology } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Message } from '#runtime/actor.ts'
import type { ReplyChannel, Served } from '#runtime/serve.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import { marketIdOf } from '../host/market-batch.ts'
import { handleAtOnce, type MarketThread } from '../host/market-host.ts'
import { withdrawBarred } from './barred-orders.ts'

/** The answer to a command if too many commands wait. */
export const FULL = reject('OVERLOADED')

export type Commands = {
  /**
   * Passes a command to the host of its market's partition; a command for the whole thread goes to the first
   * partition.
   */
  hear(type: string, message: unknown, replyTo: number, channel: ReplyChannel | undefined): void
  partitionOf(marketId: MarketId): number
  /**
   * Calls `answered(true)` once all commands received so far are durable. Calls `answered(false)` if a host cannot
   * confirm this.
   */
  prove(answered: (isSure: boolean) => void): void
  /** Assigns partitions to a host, which receives their commands from now on. */
  serve(partitions: readonly number[], host: Served): void
  drained(): Promise<void>
}

export function makeCommands(
  thread: MarketThread,
  { log }: Pick<ThreadContext, 'log'>,
  { topology, mailboxMax }: { readonly topology: Topology; readonly mailboxMax: number },
): Commands {
  /** Hosts, by partition. */
  const hosts = new Map<number, Served>()

  /** Returns the partition of a market. An open market stores its partition, so hashing the id is avoided. */
  function partitionOfMarket(marketId: MarketId): number {
    return thread.markets.get(marketId)?.partition ?? partitionOf(marketId, topology)
  }

  /** Returns whether the host refuses a command because too many commands wait at all hosts together. */
  function isFull(host: Served): boolean {
    // A host with less than its share of the maximum always accepts the command. This avoids summing the waiting
    // commands of all hosts.
    if (host.waiting * hosts.size < mailboxMax) return false
    let waiting = 0
    for (const each of new Set(hosts.values())) waiting += each.waiting
    return waiting >= mailboxMax
  }

  function hear(
    type: string,
    message: unknown,
    replyTo: number,
    channel: ReplyChannel | undefined,
  ): void {
    const { requestId } = message as { requestId?: string }
    if (requestId !== undefined) log.debug({ requestId, command: type }, 'a request arrived')
    const command = { type, message } as Message<MarketThreadProtocol>
    if (handleAtOnce(thread, command)) {
      channel?.reply(replyTo, undefined)
      withdrawBarred(thread, hear)
      return
    }
    const marketId = marketIdOf(command)
    const own = marketId === undefined ? undefined : hosts.get(partitionOfMarket(marketId))
    const [first] = hosts.values()
    const host = own ?? first
    if (host === undefined || isFull(host)) channel?.reply(replyTo, FULL)
    else host.hear(type, message, replyTo, channel)
  }

  /**
   * Asks each host to confirm that all earlier commands are durable. A host answers once the batch with this request is
   * durable; all earlier commands are durable by then.
   */
  function prove(answered: (isSure: boolean) => void): void {
    const asked = new Set(hosts.values())
    let left = asked.size
    let isSure = true
    const reply = (_: number, answer: unknown): void => {
      isSure &&= !isRejection(answer)
      if (--left === 0) answered(isSure)
    }
    for (const host of asked) host.hear('Confirm', {}, 1, { reply })
  }

  return {
    hear,
    prove,
    partitionOf: partitionOfMarket,
    serve(partitions, host) {
      for (const partition of partitions) hosts.set(partition, host)
    },
    async drained() {
      for (const host of hosts.values()) await host.drained()
    },
  }
}
