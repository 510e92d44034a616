import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { DEVNET_CHAIN_ID, devnetAccount, OPERATOR } from '#devnet/accounts.ts'
import { toAddress } from '#domain/ids.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { journalOf, transactionByHash } from '#store/writes/transactions.ts'
import { startTestChain } from '../support/chain.ts'
import { onServerDatabase } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'

const SENDER = fileURLToPath(new URL('./lease-sender.ts', import.meta.url))
const HOOKS = fileURLToPath(new URL('../../src/loader/hooks.js', import.meta.url))

await onServerDatabase(
  'a standby node takes over a role when the role’s holder is paused or killed',
  (databases) => {
    it('a paused node stops when it resumes without its lease, and the journal has every sent transaction', async (t) => {
      const chain = await startTestChain(t)
      const databaseUrl = await databases.fresh()
      const database = await openDatabase(databaseUrl)
      t.after(() => closeDatabase(database))
      await migrate(database)
      const start = () => startNode(t, databaseUrl, chain.url)

      const first = await start()
      await first.until(/^sent /, 10)
      const second = await start()
      await second.until(/^stands by$/)
      assert(!second.lines.includes('holds'))

      first.child.kill('SIGSTOP')
      const pausedAtMs = performance.now()
      await second.until(/^holds$/)
      t.diagnostic(
        `the paused node's role was taken after ${Math.round(performance.now() - pausedAtMs)} ms`,
      )
      await second.until(/^sent /, 10)
      first.child.kill('SIGCONT')
      const [code] = await first.exited
      assert.notEqual(code, 0)
      assert.match(first.errors(), /another node has taken the lease of sender after epoch 1/)
      const then = second.count(/^sent /)
      await second.until(/^sent /, then + 10)

      const third = await start()
      await third.until(/^stands by$/)
      second.child.kill('SIGKILL')
      const killedAtMs = performance.now()
      await third.until(/^holds$/)
      t.diagnostic(
        `the killed node's role was taken after ${Math.round(performance.now() - killedAtMs)} ms`,
      )
      await third.until(/^sent /, 10)

      // The chain and the journal have the same transactions, each once.
      const sender = toAddress(devnetAccount(OPERATOR).address)
      const sent = [first, second, third].flatMap((node) => node.hashes())
      await eventually(async () => {
        for (const hash of sent) {
          const row = await transactionByHash(database, { txHash: hash })
          assert(row !== undefined, `${hash} is not in the journal`)
          assert.equal(row.state, 'succeeded', `${hash} has not ended`)
        }
      })
      third.child.kill('SIGKILL')
      await third.exited
      const { rows, lastNonce } = await journalOf(database, {
        chainId: DEVNET_CHAIN_ID,
        sender,
        watchBlocks: 1_000_000,
      })
      const known = new Set(rows.flatMap(({ hashes }) => hashes))
      assert.equal(rows.length, lastNonce + 1)
      const references = rows.map(({ reference }) => reference)
      assert.equal(new Set(references).size, references.length)
      let mined = 0
      for (let number = 1; number <= (await chain.height()); number++) {
        const block = await chain.publicClient.getBlock({
          blockNumber: BigInt(number),
          includeTransactions: true,
        })
        for (const { from, hash } of block.transactions) {
          if (toAddress(from) !== sender) continue
          mined++
          assert(known.has(hash), `${hash} is on the chain and not in the journal`)
        }
      }
      assert(mined >= sent.length, `${mined} of ${sent.length} are on the chain`)
    })
  },
)

type Node = {
  readonly child: ChildProcess
  readonly lines: string[]
  readonly exited: Promise<unknown[]>
  errors(): string
  hashes(): string[]
  count(what: RegExp): number
  until(what: RegExp, times?: number): Promise<void>
}

async function startNode(t: TestContext, databaseUrl: string, rpcUrl: string): Promise<Node> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-lease-'))
  const args = ['--import', HOOKS, SENDER, databaseUrl, rpcUrl, folder]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'exit')
  t.after(() => {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  let out = ''
  let errors = ''
  const lines: string[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (out + text).split('\n')
    out = parts.pop() ?? ''
    lines.push(...parts)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const count = (what: RegExp) => lines.filter((line) => what.test(line)).length
  return {
    ...{ child, lines, exited, count },
    errors: () => errors,
    hashes: () => lines.flatMap((line) => /^sent \d+ (\S+)$/.exec(line)?.[1] ?? []),
    until: (what, times = 1) =>
      eventually(() => assert(count(what) >= times, `${lines.join('\n')}\n${errors}`)),
  }
}
