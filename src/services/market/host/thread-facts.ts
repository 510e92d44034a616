/**
 * State of other services that a market thread stores: the progress of settlement, and the progress of the database.
 */

/** Highest epoch of each chain's settlement. */
type Epochs = { readonly epochs: Map<number, number> }

/**
 * A log position from which the lag of the database is computed. At the time `atMs`, the log ended at `offset`. All
 * events that the database did not have at that time were appended after `afterMs`. So the lag is at most the time
 * since `afterMs`. The log itself is read only if this time exceeds the maximum lag.
 */
export type ProjectionMark = {
  readonly offset: number
  readonly atMs: number
  readonly afterMs: number
}

/**
 * Returns true if `epoch` is outdated. It is outdated if a report with a higher epoch has arrived, because another node
 * has then taken the lease of the chain's settlement. Otherwise stores `epoch` as the highest one.
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
