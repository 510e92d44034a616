/** A resolution thread: settles due resolutions on a chain, so that holders of shares need not wait. */

import assert from 'node:assert/strict'
import { accountOf, balanceOf } from '#chain/accounts.ts'
import { databaseUrlOf, resolvedChains, type ThreadData } from '#config/thread-data.ts'
import type { Served } from '#runtime/serve.ts'
import type { Thread } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import { startKeyWatch } from '#services/kit/key-watch.ts'
import { linkWriters, makeThreadContext, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { makeJournal } from '#store/writes/journal.ts'
import { resolutionMeters } from './metrics.ts'
import {
  newResolution,
  type ResolutionEvent,
  type ResolutionProtocol,
  type ResolutionState,
  resolution,
} from './resolution.ts'
import { resolutionPorts } from './thread/resolution-ports.ts'

export function resolutionThread(data: ThreadData, world: ChainWorld = chainWorld): Thread {
  const { name, index, settings } = data
  const chain = resolvedChains(settings)[index] ?? assert.fail(`${name} has no chain`)
  const { chainId } = chain
  const kit = makeThreadContext(data, world, { chain: String(chainId) })
  const { log, clock } = kit
  const writers = linkWriters(settings, kit)
  // Name of the role that lets one node at a time use the key of this chain.
  const role = `resolution/${chainId}`
  const leases = makeLeases(data, kit, world)
  const reads = world.makeReads(databaseUrlOf(settings))
  const { query } = reads
  let state: ResolutionState | undefined
  let served: Served | undefined
  let key: ReturnType<typeof startKeyWatch> | undefined
  const meters = resolutionMeters(kit, () => state)
  const client = world.makeChainClient({
    chainId,
    rpcUrls: chain.rpcUrls,
    onError: ({ host, why }) => log.debug({ host, why }, 'a request to the chain failed'),
  })

  const look = () => served?.hear('Tick', {}, 0, undefined)

  function begin(): void {
    const own = accountOf(settings.keys.resolution)
    state = newResolution(
      resolutionPorts({
        ...{ chain, client, query, own, nowMs: clock.nowMs },
        journal: makeJournal(leases.writeQueue(role, writers.store), reads),
        onTrouble: meters.troubled,
      }),
    )
    served = serveActor<ResolutionState, ResolutionProtocol, ResolutionEvent>({
      behaviour: resolution,
      state,
      clock,
      loop: kit.loop,
      say: meters.said,
    })
    kit.every(settings.resolution.pollMs, look)
    key = startKeyWatch(kit, settings.relayer, {
      ...{ setting: 'SIBYL_RESOLUTION_KEY', chainId, address: own.address },
      balanceWei: () => balanceOf(client, own.address),
    })
    log.info({ key: own.address }, `settling resolutions on chain ${chainId}`)
  }

  return {
    start: () => leases.hold(role, begin),
    connect(peer, port) {
      if (writers.take(peer, port) === 'store') look()
    },
    health: () => key?.why() || (state?.why ?? (leases.standby() || 'starting')),
    metrics: kit.metrics,
    async drain() {
      kit.quiet()
    },
    async stop() {
      kit.quiet()
      writers.close()
      await reads.close()
      await leases.close()
    },
  }
}
