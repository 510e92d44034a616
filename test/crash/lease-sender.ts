/**
 * A node with one role. While it has the lease, it sends transactions of one key, with the real transaction queue,
 * journal and write queue. Run as `lease-sender.ts databaseUrl rpcUrl folder`. It prints one line per step: `stands
 * by`, `holds`, `sent <nonce> <hash>`.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { accountOf } from '#chain/accounts.ts'
import { makeChainClient } from '#chain/clients.ts'
import { makeLane } from '#chain/sender/lane.ts'
import { loadSettings } from '#config/settings.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { DEVNET_CHAIN_ID, devnetKey, OPERATOR } from '#devnet/accounts.ts'
import { Fault } from '#domain/fault.ts'
import { makeThreadContext } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { openDatabase } from '#store/open-database.ts'
import { makeReads } from '#store/reads/reads.ts'
import { makeJournal } from '#store/writes/journal.ts'
import { runWrites } from '#store/writes/writes.ts'

const [databaseUrl = '', rpcUrl = '', folder = ''] = process.argv.slice(2)
const settings = loadSettings({
  SIBYL_DATABASE_URL: databaseUrl,
  SIBYL_DATA_DIR: folder,
  SIBYL_LOG_LEVEL: 'error',
})
const say = (line: string) => process.stdout.write(`${line}\n`)
const data = { name: 'sender', settings, isTerminal: false } as ThreadData
const database = await openDatabase(databaseUrl)
const reads = makeReads(databaseUrl)
const leases = makeLeases(data, makeThreadContext(data), { openDatabase })
const role = 'sender'
const writeQueue = leases.writeQueue(role, {
  ask: async (_type, task) => (await runWrites(database, [task]))[0],
})

async function play(): Promise<void> {
  say('holds')
  const { account, address } = accountOf(devnetKey(OPERATOR))
  const lane = makeLane({
    client: makeChainClient({ chainId: DEVNET_CHAIN_ID, rpcUrls: [rpcUrl] }).viem,
    account,
    chainId: DEVNET_CHAIN_ID,
    journal: makeJournal(writeQueue, reads),
    nowMs: Date.now,
    policy: { rebroadcastAfterMs: 200 },
  })
  const step = async (number: number): Promise<void> => {
    if (lane.room() > 0) {
      const reference = `${process.pid}.${number}`
      const call = { to: address, data: '0x', value: 1n, gas: 21_000n }
      const row = await lane.send({ ...call, purpose: 'test', reference })
      say(`sent ${row.nonce} ${row.hashes[0]}`)
    }
    for (const news of (await lane.poll()).news) {
      if (news.type !== 'finished') continue
      await lane.acknowledge({ sender: news.transaction.sender, nonce: news.transaction.nonce })
    }
  }
  for (let number = 0; ; number++) {
    await step(number).catch((error: unknown) => {
      // Continues after a retryable error, as the exchange's real senders do. The node may have lost its lease without
      // knowing it yet.
      if (!(error instanceof Fault && error.retryable)) throw error
    })
    await pause(5)
  }
}

await leases.hold(role, () => void play())
if (leases.standby() !== '') say('stands by')
