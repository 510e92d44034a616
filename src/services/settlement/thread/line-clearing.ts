/**
 * Carries out what settlement plans for the traders who are next in line (`next-in-line.ts`): asks the markets, then
 * the chain, then the markets again. If one does not answer, nothing changes there.
 */

import type { ComingBack, NextInLine } from '#protocol/market-host.ts'
import type { SettlementLane } from '../chain/settlement-lane.ts'
import { type Leaving, leavingOf, questionsOf } from '../next-in-line.ts'
import type { ClearedLine, LinePlan } from '../state.ts'

/** Withdrawals that are under way together: a market's other orders do not wait long for them. */
const WITHDRAWALS_MAX = 25
const NOBODY: NextInLine = { size: 0, line: [] }

export function makeLineClearing(ports: {
  /** Each throws when its market does not answer in a moment. */
  nextInLine(back: ComingBack): Promise<NextInLine>
  /** Answers how many orders left. */
  withdraw(leaving: Leaving): Promise<number>
  readonly lookAtOwners: SettlementLane['lookAtOwners']
}): (plan: LinePlan) => Promise<ClearedLine> {
  return async (plan) => {
    const whys: string[] = []
    const answered = <T>(each: PromiseSettledResult<T>, otherwise: T): T => {
      if (each.status === 'fulfilled') return each.value
      whys.push(each.reason instanceof Error ? each.reason.message : String(each.reason))
      return otherwise
    }
    const asked = await Promise.allSettled(plan.lines.map((line) => ports.nextInLine(line)))
    const found = asked.map((each) => answered(each, NOBODY))
    const questions = questionsOf(plan, found)
    if (questions.length === 0) return cleared(0, whys)
    const [looked] = await Promise.allSettled([ports.lookAtOwners(questions)])
    const leaving = leavingOf(plan, found, answered(looked, []))
    const silent = whys.length
    let orders = 0
    // If one that has to take orders out is silent, it ends here: trades of strangers wait for this.
    for (let at = 0; at < leaving.length && whys.length === silent; at += WITHDRAWALS_MAX) {
      const some = leaving.slice(at, at + WITHDRAWALS_MAX)
      const left = await Promise.allSettled(some.map((each) => ports.withdraw(each)))
      for (const each of left) orders += answered(each, 0)
    }
    return cleared(orders, whys)
  }
}

function cleared(orders: number, [why]: readonly string[]): ClearedLine {
  return why === undefined ? { orders } : { orders, why }
}
