/**
 * Checks that no definite answer about an order was wrong (linearizability, by the search of Wing and Gong). Clients
 * place, cancel and read each order through any front. For each order, a sequence of its requests must exist that fits
 * the times of the requests and answers. An exchange that handles this sequence one request at a time must give the
 * same answers.
 */

export type Answered = {
  readonly kind: 'place' | 'cancel' | 'read'
  /**
   * `done`: the order was placed or was already open, or the cancel took effect. `closed`: it had been cancelled
   * before. `missing`: there is no such order. `open`, `not open`: the result of a read. `unknown`: the request may
   * have taken effect, or may still do so.
   */
  readonly outcome: 'done' | 'closed' | 'missing' | 'open' | 'not open' | 'unknown'
  readonly front: string
  readonly fromMs: number
  /** Time of the answer; infinite if the outcome is unknown, because the request may take effect later. */
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

/** Returns whether one sequence of requests explains all answers about an order. */
export function isRight(answers: readonly Answered[]): boolean {
  const tried = new Set<string>()
  const search = (left: readonly Answered[], state: State): boolean => {
    // An unknown request need not have happened.
    if (left.every(({ outcome }) => outcome === 'unknown')) return true
    const key = `${state} ${left.map((each) => answers.indexOf(each)).join()}`
    if (tried.has(key)) return false
    tried.add(key)
    // A request can take effect next only if it was sent before the earliest remaining answer.
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
