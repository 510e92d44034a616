import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SibylError } from '#client/sibyl-error.ts'
import { UNIT } from '../contracts/support/world.ts'
import { eventually } from '../support/eventually.ts'
import type { Person } from '../support/relayed.ts'
import {
  assertDoneOnce,
  closeFragile,
  crashRelayerOnce,
  KILL_POINTS,
  openFragile,
  sentByAll,
} from './relayer-crash.ts'

test('the relayer executes each operation exactly once despite kills and chain faults', async (t) => {
  const fragile = await openFragile()
  const { relayed, proxy } = fragile
  let failed = false
  t.afterEach((subtest) => {
    failed ||= 'error' in subtest && subtest.error != null
  })
  t.after(async () => {
    await closeFragile(fragile)
    if (failed) process.stderr.write(`the exchange wrote:\n${relayed.exchange.output()}\n`)
  })
  const before = await sentByAll(fragile)
  let operations = 0
  const someone = async () => {
    operations++
    const owner = await relayed.person(UNIT)
    return { owner, request: await owner.client.relayer.sign.ctfApproval() }
  }

  /** Returns a client of the owner that does not retry, so that it returns the first answer or error. */
  const impatient = (owner: Person) => relayed.again(owner, { retries: 0 })

  await t.test(
    'the relayer reports an unreachable chain, and executes the operation once when the chain is back',
    async () => {
      const { owner, request } = await someone()
      proxy.faults = { down: true }
      const error = await impatient(owner)
        .relayer.submit(request)
        .then(
          () => assert.fail('there was no exchange'),
          (thrown: unknown) => thrown,
        )
      assert.ok(error instanceof SibylError)
      assert.deepEqual([error.status, error.code], [503, 'CHAIN_UNAVAILABLE'])
      proxy.faults = {}
      await assertDoneOnce(relayed, owner, request)
    },
  )

  await t.test(
    'the relayer submits an operation again if the chain failed during the first submission',
    async () => {
      const { owner, request } = await someone()
      proxy.before = (method) => {
        if (method !== 'eth_sendRawTransaction') return
        proxy.before = undefined
        proxy.faults = { down: true }
        throw new Error('it did not arrive')
      }
      const { tx_hash } = await owner.client.relayer.submit<{ tx_hash: string }>(request)
      assert.match(tx_hash, /^0x[0-9a-f]{64}$/)
      proxy.faults = {}
      await assertDoneOnce(relayed, owner, request)
    },
  )

  await t.test(
    'the relayer submits a transaction again if the transaction pool has dropped the transaction',
    async () => {
      const { owner, request } = await someone()
      proxy.faults = { dropTransactions: true }
      const { tx_hash } = await owner.client.relayer.submit<{ tx_hash: string }>(request)
      const drops = () => proxy.requests.get('eth_sendRawTransaction') ?? 0
      const first = drops()
      await eventually(() => assert.ok(drops() > first))
      proxy.faults = {}
      await assertDoneOnce(relayed, owner, request)
      assert.match(tx_hash, /^0x/)
    },
  )

  await t.test('the relayer retries chain requests that fail with temporary errors', async () => {
    const { owner, request } = await someone()
    // Number of errors that the chain proxy returns for each method of an operation. The indexer also requests blocks,
    // and may receive some of these errors.
    const errorTimes = {
      eth_call: 2,
      eth_estimateGas: 2,
      eth_getBlockByNumber: 2,
      eth_getTransactionCount: 2,
      eth_maxPriorityFeePerGas: 2,
      eth_sendRawTransaction: 1,
      eth_getTransactionReceipt: 2,
    }
    proxy.faults = { errorTimes, error: { code: -32_005, message: 'too many requests' } }
    await impatient(owner).relayer.submit(request)
    await assertDoneOnce(relayed, owner, request)
    await eventually(() => assert.deepEqual(new Set(Object.values(errorTimes)), new Set([0])))
    proxy.faults = {}
  })

  await t.test(
    'if a reorg removes the transaction of an operation, the relayer executes the operation again',
    async () => {
      const { owner, request } = await someone()
      const rewind = await relayed.chain.fork()
      await assertDoneOnce(relayed, owner, request)
      await rewind()
      await eventually(async () => {
        const { conditionalTokens } = relayed.chain
        const nonce = await relayed.chain.read(conditionalTokens, 'nonces', [owner.address])
        assert.equal(nonce, 1n)
      })
      await assertDoneOnce(relayed, owner, request)
    },
  )

  assert.equal(await sentByAll(fragile), before + operations)

  await t.test(
    'after the relayer is killed, each operation in progress is executed exactly once',
    async (nested) => {
      const report = await crashRelayerOnce(fragile, KILL_POINTS)
      nested.diagnostic(JSON.stringify(report))
      assert.equal(report.operations, 6)
      assert.equal(report.transactions, report.operations)
      assert.equal(report.reached, 2, 'one was broadcast, one was answered')
    },
  )
})
