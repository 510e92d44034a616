/** State of other services that a market thread stores: the progress of settlement and the database. */

/** By chain: the highest epoch of its settlement. */
type Epochs = { readonly epochs: Map<number, number> }

/**
 * A position in the log. The log ended there at `atMs`, and events that the database lacks were appended after
 * `afterMs`. So the log need only be read if the database may lag.
 */
export type ProjectionMark = {
  readonly offset: number
  readonly atMs: number
  readonly afterMs: number
}

/**
 * True if a newer holder settles the chain. Raises the epoch, so that later reports of the earlier holder are rejected.
 */
export function isLate({ epochs }: Epochs, chainId: number, epoch: number | undefined): boolean {
  if (epoch === undefined) return false
  if (epoch < (epochs.get(chainId) ?? 0)) return true
  epochs.set(chainId, epoch)
  return false
}

export function applyLag(
  thread: Epochs & { readonly behind: Set<number> },
  told: { readonly chainId: number; readonly behind: boolean; readonly epoch?: number },
): undefined {
  const { chainId, behind, epoch } = told
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
