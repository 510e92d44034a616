/** What a market thread is told and keeps of others: how far settlement and the database are. */

/** By chain: the highest epoch under which its trades are settled. */
type Epochs = { readonly epochs: Map<number, number> }

/**
 * A place in the log: the log ended there at `atMs`, and events that the database lacks were appended after
 * `afterMs`. So a reader opens the log only if the database may lag.
 */
export type ProjectionMark = {
  readonly offset: number
  readonly atMs: number
  readonly afterMs: number
}

/** Whether somebody else settles the chain since; from now on whoever did so before is late. */
export function isLate({ epochs }: Epochs, chainId: number, epoch: number | undefined): boolean {
  if (epoch === undefined) return false
  if (epoch < (epochs.get(chainId) ?? 0)) return true
  epochs.set(chainId, epoch)
  return false
}

export function hearLag(
  thread: Epochs & { readonly behind: Set<number> },
  told: { readonly chainId: number; readonly behind: boolean; readonly epoch?: number },
): undefined {
  const { chainId, behind, epoch } = told
  if (isLate(thread, chainId, epoch)) return
  if (behind) thread.behind.add(chainId)
  else thread.behind.delete(chainId)
}

export function hearProjected(
  thread: {
    readonly projected: Map<number, number>
    readonly options: { readonly log: { readonly owned: readonly number[] } }
  },
  { partition, offset }: { readonly partition: number; readonly offset: number },
): undefined {
  if (thread.options.log.owned.includes(partition)) thread.projected.set(partition, offset)
}
