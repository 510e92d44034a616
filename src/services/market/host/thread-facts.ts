/**
 * State of other services that a market thread stores: the progress of settlement, and the progress of the database.
 */

/** Highest epoch of each chain's settlement. */
type Epochs = { readonly epochs: Map<number, number> }

/**
 * A log position for measuring the lag of the database. At the time `atMs`, the log ended at `offset`, and all events
 * that were not in the database had been appended after `afterMs`. So the lag is at most the time since `afterMs`. The
 * log itself is read only if this time exceeds the maximum lag.
 */
export type ProjectionMark = {
  readonly offset: number
  readonly atMs: number
  readonly afterMs: number
}

/**
 * Returns true if a newer owner of the chain's settlement lease is known, so that reports with this epoch are outdated.
 * Otherwise stores the epoch. From then on, reports with a lower epoch are outdated.
 */
export function isLate({ epochs }: Epochs, chainId: number, epoch: number | undefined): boolean {
  if (epoch === undefined) return false
  if (epoch < (epochs.get(chainId) ?? 0)) return true
  epochs.set(chainId, epoch)
  return false
}

export function applyLag(
  thread: Epochs & { readonly behind: Set<number> },
  notice: { readonly chainId: number; readonly behind: boolean; readonly epoch?: number },
): undefined {
  const { chainId, behind, epoch } = notice
  if (isLate(thread, chainId, epoch)) return
  if (behind) thread.behind.add(chainId)
  else thread.behind.delete(chainId)
}

export function applyProjected(
  thread: {
    readonly projected: Map<number, number>
    readonly options: { readonly log: { readonly owned: readonly number[] } }
  },
  { partition, offset }: { readonly partition: number; readonly offset: number },
): undefined {
  if (thread.options.log.owned.includes(partition)) thread.projected.set(partition, offset)
}
