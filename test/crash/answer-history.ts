/**
 * Checks that no definite answer about an order was wrong: that its placing, cancels and reads, by whichever front, can be
 * put in one order that fits their times, as if there were one exchange (linearizability, by the search of Wing and
 * Gong). Orders are independent of each other, so each has a history of its own, which is short.
 */

export type Answered = {
  readonly kind: 'place' | 'cancel' | 'read'
  /**
   * done: it was placed, or was open already; it was cancelled. closed: it had been cancelled before. missing: there is
   * no such order. open, not open: what a read shows. unknown: it may have happened, or may still.
   */
  readonly outcome: 'done' | 'closed' | 'missing' | 'open' | 'not open' | 'unknown'
  readonly front: string
  readonly fromMs: number
  /** Infinite where it is not known: it may take effect after its answer. */
  readonly untilMs: number
}

type State = 'absent' | 'open' | 'cancelled'

/** Returns the state after the request, or undefined if the answer is wrong in this state. */
function after(state: State, { kind, outcome }: Answered): State | undefined {
  if (kind === 'read') return (outcome === 'open') === (state === 'open') ? state : undefined
  if (outcome === 'closed') return state === 'cancelled' ? state : undefined
  if (outcome === 'missing') return state === 'absent' ? state : undefined
  if (kind === 'place') {
    if (state === 'cancelled') return outcome === 'unknown' ? state : undefined
    return 'open'
  }
  if (state === 'open') return 'cancelled'
  return outcome === 'unknown' ? state : undefined
}

/** Whether all answers about one order can be right. */
export function isRight(answers: readonly Answered[]): boolean {
  const tried = new Set<string>()
  const search = (left: readonly Answered[], state: State): boolean => {
    // An unknown request need not have happened.
    if (left.every(({ outcome }) => outcome === 'unknown')) return true
    const key = `${state} ${left.map((each) => answers.indexOf(each)).join()}`
    if (tried.has(key)) return false
    tried.add(key)
    // A request that was sent after another was answered comes behind it.
    const firstEndMs = Math.min(...left.map(({ untilMs }) => untilMs))
    return left.some((each) => {
      const next = each.fromMs <= firstEndMs ? after(state, each) : undefined
      if (next === undefined) return false
      return search(
        left.filter((other) => other !== each),
        next,
      )
    })
  }
  return search(answers, 'absent')
}
