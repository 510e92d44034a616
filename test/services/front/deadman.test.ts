import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeadmanSwitch } from '#domain/deadman.ts'
import { reject } from '#domain/rejection.ts'
import { openDeadman } from '#services/front/deadman.ts'
import type { WriteQueueRef } from '#store/writes/ask-write.ts'
import { traderNamed } from '../../support/orders.ts'

type WriteTask = Parameters<WriteQueueRef['ask']>[1]

test('the switch of a delegate fires while the account has it, and not after it was revoked', async () => {
  const account = traderNamed('ann')
  const delegate = traderNamed('bot')
  const due: DeadmanSwitch = { keyId: 'k1', address: account, delegate, dueAtMs: 1_000 }
  let may: boolean | 'unknown' = 'unknown'
  let turn: () => void = () => {}
  const cancelled: string[] = []
  const written: WriteTask[] = []
  const store = {
    async ask(_type: 'Write', task: WriteTask) {
      written.push(task)
      return { ok: true, answer: true }
    },
  }
  const switches = openDeadman({
    store,
    query: (async () => [due]) as never,
    gateway: {
      async cancelAll(trader) {
        cancelled.push(trader)
        return { orderHashes: [], pending: [], count: 0 }
      },
    },
    async mayAct(of, by) {
      assert.deepEqual([of, by], [account, delegate])
      return may === 'unknown' ? reject('OVERLOADED') : may
    },
    clock: { nowMs: () => 2_000 } as never,
    log: { info() {}, warn() {} } as never,
    every: ((_ms: number, then: () => void) => {
      turn = then
    }) as never,
  })
  const afterTurn = async () => {
    turn()
    await new Promise((resolve) => setImmediate(resolve))
  }
  // The delegations cannot be read: neither cancelled nor forgotten.
  await afterTurn()
  assert.deepEqual([cancelled, written], [[], []])
  may = false
  await afterTurn()
  assert.deepEqual([cancelled, written.map(({ write }) => write)], [[], ['clearDeadman']])
  may = true
  await afterTurn()
  assert.deepEqual(cancelled, [account])
  assert.equal(await switches.set(due, 3_000), undefined)
  assert.deepEqual(written.at(-1), { write: 'setDeadman', args: due })
})
