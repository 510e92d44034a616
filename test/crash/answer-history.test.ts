import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answered, isRight } from './answer-history.ts'

function history(
  ...answers: (readonly [Answered['kind'], Answered['outcome'], from: number, until: number])[]
): Answered[] {
  return answers.map(([kind, outcome, fromMs, untilMs]) => {
    return { kind, outcome, front: 'a', fromMs, untilMs }
  })
}
const NEVER = Number.POSITIVE_INFINITY

test('the history checker accepts a history in which each answer is consistent with the earlier requests', () => {
  assert(
    isRight(history(['place', 'done', 0, 1], ['read', 'open', 2, 3], ['cancel', 'done', 4, 5])),
  )
  assert(
    isRight(history(['place', 'done', 0, 1], ['cancel', 'done', 2, 3], ['cancel', 'closed', 4, 5])),
  )
  assert(isRight(history(['cancel', 'missing', 0, 1], ['place', 'done', 2, 3])))
})

test('the history checker rejects a history in which an answer contradicts an earlier answer', () => {
  assert(!isRight(history(['place', 'done', 0, 1], ['cancel', 'missing', 2, 3])))
  assert(!isRight(history(['place', 'done', 0, 1], ['read', 'not open', 2, 3])))
  assert(!isRight(history(['read', 'open', 0, 1], ['place', 'done', 2, 3])))
  assert(
    !isRight(history(['place', 'done', 0, 1], ['cancel', 'done', 2, 3], ['read', 'open', 4, 5])),
  )
})

test('the history checker lets overlapping requests take effect in any order that fits all answers', () => {
  assert(isRight(history(['place', 'done', 0, 10], ['cancel', 'missing', 2, 3])))
  assert(
    !isRight(
      history(['place', 'done', 0, 10], ['read', 'open', 1, 2], ['cancel', 'missing', 3, 4]),
    ),
  )
})

test('the history checker assumes that a request without an answer may take effect later or never', () => {
  const unknown = ['place', 'unknown', 0, NEVER] as const
  assert(isRight(history(unknown, ['read', 'not open', 2, 3])))
  assert(isRight(history(unknown, ['read', 'not open', 2, 3], ['read', 'open', 4, 5])))
  assert(!isRight(history(unknown, ['read', 'open', 2, 3], ['read', 'not open', 4, 5])))
  assert(
    isRight(
      history(
        unknown,
        ['cancel', 'unknown', 1, NEVER],
        ['read', 'open', 2, 3],
        ['read', 'not open', 4, 5],
      ),
    ),
  )
})
