import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FairTurns } from '#http/fair-turns.ts'
import type { Connection } from '#stream/connection.ts'
import { makePumpTurns } from '#stream/pump-turns.ts'

type Work = Parameters<FairTurns['wait']>[1]

function fixture() {
  const pumped: string[] = []
  const waiting: Work[] = []
  const later: (() => void)[] = []
  let isFull = false
  const turns: FairTurns = {
    begin: (ip) => (ip === 'modest' ? 0 : undefined),
    done: () => undefined,
    next: () => undefined,
    wait(_, work) {
      if (!isFull) waiting.push(work)
      return !isFull
    },
    waiting: () => waiting.length,
  }
  const pump = ({ session }: Connection) => void pumped.push(session)
  const pumpInTurn = makePumpTurns({ turns, pump, later: (then) => void later.push(then) })
  const connection = (session: string, ip = 'greedy') =>
    ({ session, ip, ws: {} }) as unknown as Connection
  const setFull = (now: boolean) => {
    isFull = now
  }
  return { pumped, waiting, later, pumpInTurn, connection, setFull }
}

test('a connection waits in the send queue only once, however many of its snapshots are ready', () => {
  const { pumped, waiting, pumpInTurn, connection } = fixture()
  const one = connection('one')
  for (let count = 0; count < 200; count++) pumpInTurn(one)
  pumpInTurn(connection('other', 'modest'))
  assert.deepEqual(pumped, ['other'])
  assert.equal(waiting.length, 1)
  waiting.pop()?.run()
  assert.deepEqual(pumped, ['other', 'one'])
  pumpInTurn(one)
  assert.equal(waiting.length, 1, 'it waits again')
})

test('if the full send queue refuses a snapshot, the snapshot is sent in a later event-loop turn', () => {
  const { pumped, waiting, later, pumpInTurn, connection, setFull } = fixture()
  const [shed, full, gone] = ['shed', 'full', 'gone'].map((name) => connection(name))
  pumpInTurn(shed!)
  waiting.pop()?.refuse()
  setFull(true)
  pumpInTurn(full!)
  pumpInTurn(gone!)
  gone!.ws = undefined
  assert.deepEqual(pumped, [])
  setFull(false)
  for (const then of later.splice(0)) then()
  for (const { run } of waiting.splice(0)) run()
  assert.deepEqual(pumped, ['shed', 'full'])
})
