/**
 * Starts and ends the threads of the slots that this node has taken. A slot is a thread that runs on one node at a
 * time. This node may take a slot again before the slot's earlier thread has ended, so each start waits until the
 * earlier thread has ended.
 */

import type { BridgePorts } from './bridge-ports.ts'

export function makeOwnedSlots(
  ports: Pick<BridgePorts, 'world' | 'log' | 'taken' | 'begin' | 'ended' | 'handOver' | 'end'>,
  hooks: {
    readonly sayBeat: () => void
    /** Called when the thread of a slot is ready. */
    readonly serving: (slot: string) => void
    /** Called when this node no longer runs a slot. */
    readonly ended: (slot: string) => void
  },
) {
  const { log } = ports
  const { monotonicMs } = ports.world
  const { sayBeat, serving } = hooks
  /** Epoch of each slot that this node has taken. */
  const taken = new Map<string, number>()
  const releasing = new Set<string>()
  /** Thread starts that are in progress, by slot. Includes slots that this node has released since the start began. */
  const beginnings = new Map<string, Promise<void>>()
  /** Threads of released slots that are still ending on this node; another node may already serve these slots. */
  const endings = new Map<string, Promise<void>>()

  async function take(slot: string, epoch: number): Promise<void> {
    const begunMs = monotonicMs()
    taken.set(slot, epoch)
    log.info({ slot, epoch }, `this node takes ${slot}`)
    ports.taken(slot, epoch)
    const before = [endings.get(slot), beginnings.get(slot)]
    const isWanted = () => taken.get(slot) === epoch && !releasing.has(slot)
    const beginning = Promise.allSettled(before).then(() => ports.begin(slot, isWanted))
    beginnings.set(slot, beginning)
    try {
      await beginning
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      log.warn({ slot, epoch, why }, `${slot} did not start on this node`)
      slotEnded(slot, epoch)
      return
    } finally {
      if (beginnings.get(slot) === beginning) beginnings.delete(slot)
    }
    serving(slot)
    log.info({ slot, epoch, ms: monotonicMs() - begunMs }, `this node serves ${slot}`)
    sayBeat()
    void ports.ended(slot).then((why) => {
      if (taken.get(slot) === epoch && !releasing.has(slot))
        log.warn({ slot, epoch, why }, `this node no longer runs ${slot}`)
      slotEnded(slot, epoch)
    })
  }

  async function release(slot: string, why: string): Promise<void> {
    const epoch = taken.get(slot)
    releasing.add(slot)
    log.info({ slot, epoch, why }, `this node releases ${slot}`)
    const warn = (error: unknown) =>
      log.warn({ slot, err: error }, `an error occurred while ${slot} was handed over or ended`)
    await ports.handOver(slot).catch(warn)
    const ending = ports.end(slot).catch(warn)
    endings.set(slot, ending)
    slotEnded(slot, epoch)
    await ending
    if (endings.get(slot) === ending) endings.delete(slot)
  }

  /**
   * Records that this node no longer runs a slot. Does nothing if this node took the slot again, or if the end is
   * already recorded.
   */
  function slotEnded(slot: string, epoch: number | undefined): void {
    if (taken.get(slot) !== epoch) return
    taken.delete(slot)
    releasing.delete(slot)
    hooks.ended(slot)
  }

  return {
    take,
    release,
    /** Resolves when every released thread has ended. */
    async allEnded(): Promise<void> {
      await Promise.all(endings.values())
    },
  }
}
