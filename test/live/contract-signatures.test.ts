import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import {
  CONTRACT_SIGNATURES_AT_ONCE_MAX,
  CONTRACT_SIGNATURES_BURST,
  CONTRACT_SIGNATURES_STRANGERS_TIMES,
  CONTRACT_SIGNATURES_WAITING_MAX,
} from '#domain/limits.ts'
import { makeLimiter } from '#http/limits.ts'
import { makeSharedTable } from '#http/shared-table.ts'
import { makeContractSignatures } from '#live/contract-signatures.ts'
import { traderNamed } from '../support/orders.ts'

/** One chain, on which every account has code. */
const alone = { chainIds: [1], hasCode: async () => true }

const question = (digest: string, account = 'safe') => ({
  chainId: 1,
  account: traderNamed(account),
  digest,
  signature: '0xAB',
})

function rejectedOf(answer: unknown): string {
  return (answer as { rejected?: string }).rejected ?? String(answer)
}

test('a contract account’s signature counts for all chains only if every chain with the account’s code accepts it', async () => {
  const [accepts, refuses, empty, away] = [1, 2, 3, 4] as const
  const everywhere = (...chainIds: number[]) => {
    const contracts = makeContractSignatures({
      chainIds,
      async ask({ chainId }) {
        if (chainId === away) throw new Fault('CHAIN_UNAVAILABLE', 'away', { retryable: true })
        return chainId === accepts
      },
      hasCode: async ({ chainId }) => chainId !== empty,
    })
    const { chainId: _, ...asked } = question('a')
    return contracts.acceptEverywhere(asked, {})
  }
  assert.equal(await everywhere(accepts), true)
  assert.equal(await everywhere(empty, accepts, empty), true)
  assert.equal(await everywhere(empty), false)
  assert.equal(await everywhere(refuses, accepts), false)
  assert.equal(await everywhere(accepts, refuses), false)
  assert.equal(rejectedOf(await everywhere(accepts, away)), 'CHAIN_UNAVAILABLE')
})

test('a contract account’s code is asked about the same signature at most once per block', async () => {
  let asked = 0
  const contracts = makeContractSignatures({
    ...alone,
    ask: async () => {
      asked++
      return asked === 1
    },
  })
  const answers = [question('a'), question('a'), question('a')].map((one) =>
    contracts.accepts(one, {}),
  )
  assert.deepEqual(await Promise.all(answers), [true, true, true])
  assert.equal(asked, 1)
  contracts.advanced(2)
  await contracts.accepts(question('a'), {})
  assert.equal(asked, 1, 'a block of another chain changes nothing')
  contracts.advanced(1)
  assert.equal(await contracts.accepts(question('a'), {}), false)
  assert.equal(asked, 2)
})

test('if a chain is unreachable, the check of a signature fails, and the result is not cached', async () => {
  let away = true
  const contracts = makeContractSignatures({
    ...alone,
    async ask() {
      if (away) throw new Fault('CHAIN_UNAVAILABLE', 'away', { retryable: true })
      return true
    },
  })
  assert.equal(rejectedOf(await contracts.accepts(question('a'), {})), 'CHAIN_UNAVAILABLE')
  away = false
  assert.equal(await contracts.accepts(question('a'), {}), true)
})

test('simultaneous signature checks by account code are limited, and checks above the queue limit are refused', async () => {
  const release: (() => void)[] = []
  const contracts = makeContractSignatures({
    ...alone,
    ask: () => new Promise((resolve) => release.push(() => resolve(true))),
  })
  const most = CONTRACT_SIGNATURES_AT_ONCE_MAX + CONTRACT_SIGNATURES_WAITING_MAX
  const answers = Array.from({ length: most + 1 }, (_, at) =>
    contracts.accepts(question(`${at}`), {}),
  )
  assert.equal(rejectedOf(await answers[most]), 'OVERLOADED')
  assert.equal(release.length, CONTRACT_SIGNATURES_AT_ONCE_MAX)
  for (let done = 0; done < most; done++) {
    while (!(0 in release)) await new Promise((resolve) => setImmediate(resolve))
    release.shift()?.()
  }
  assert.equal(
    (await Promise.all(answers.slice(0, most))).every((one) => one === true),
    true,
  )
})

/** Makes a checker of contract signatures with rate limits. Its clock does not move. */
function limited() {
  const settings = {
    ...{ ipPerSecond: 1, ipBurst: 1, siteTimes: 1, keyPerSecond: 1, keyBurst: 1, readCost: 1 },
    ...{ writeCost: 1, registrationCost: 1, unfundedPerSecond: 1, unfundedBurst: 1 },
    connectionCost: 1,
  }
  const { contractSignatures } = makeLimiter(settings, makeSharedTable(1_024, 'secret'), () => 1)
  const asked: string[] = []
  const contracts = makeContractSignatures({
    ...alone,
    async ask({ digest }) {
      asked.push(digest)
      return false
    },
    limit: contractSignatures,
  })
  return { contracts, asked }
}

test('signature checks by account code are rate-limited per client and per contract account', async () => {
  const { contracts, asked } = limited()
  const ask = (at: number, ip: string, account = `safe ${at}`) =>
    contracts.accepts(question(`${at}`, account), { ip })
  for (let at = 0; at < CONTRACT_SIGNATURES_BURST; at++) await ask(at, '1.1.1.1')
  assert.equal(rejectedOf(await ask(1_000, '1.1.1.1')), 'RATE_LIMITED')
  const most = CONTRACT_SIGNATURES_STRANGERS_TIMES * CONTRACT_SIGNATURES_BURST
  for (let at = 0; at < most; at++) await ask(2_000 + at, `2.2.2.${at}`, 'one')
  assert.equal(rejectedOf(await ask(3_000, '3.3.3.3', 'one')), 'RATE_LIMITED')
  assert.equal(asked.length, CONTRACT_SIGNATURES_BURST + most)
})

test('all networks of one IPv6 /48 share one limit of signature checks by account code', async () => {
  const { contracts, asked } = limited()
  const ask = (at: number, ip: string) => contracts.accepts(question(`${at}`, `safe ${at}`), { ip })
  for (let at = 0; at < 5 * CONTRACT_SIGNATURES_BURST; at++) await ask(at, `2001:db8:1:${at}::1`)
  assert.equal(asked.length, CONTRACT_SIGNATURES_BURST)
  assert.equal(await ask(1_000, '2001:db8:2::1'), false)
})

test('a client with signatures of a foreign contract account cannot use up that account’s limit of checks', async () => {
  const { contracts, asked } = limited()
  const account = traderNamed('safe')
  const stranger = { ip: '1.1.1.1', principal: { keyId: 'k', address: traderNamed('stranger') } }
  for (let at = 0; at < 2 * CONTRACT_SIGNATURES_BURST; at++) {
    await contracts.accepts(question(`forged ${at}`), stranger)
  }
  assert.equal(asked.length, CONTRACT_SIGNATURES_BURST)
  const newcomer = await contracts.accepts(question('registration'), { ip: '2.2.2.2' })
  assert.equal(newcomer, false, 'the account can still register an API key')
  for (let each = 0; each < 8; each++) {
    for (let at = 0; at < CONTRACT_SIGNATURES_BURST; at++) {
      await contracts.accepts(question(`${each} ${at}`), { ip: `3.3.3.${each}` })
    }
  }
  assert.equal(
    rejectedOf(await contracts.accepts(question('late'), { ip: '4.4.4.4' })),
    'RATE_LIMITED',
  )
  const own = { ip: '2.2.2.2', principal: { keyId: 'own', address: account } }
  assert.equal(await contracts.accepts(question('own'), own), false)
  assert.equal(asked.at(-1), 'own')
})
