/**
 * `npm run bench -- relayer`: measures relayed operations per second, from the first request until the last operation
 * is in a block. Each operation is signed by a different owner and posted over HTTP. In the same run, the rate is
 * compared with that of bare transactions on the same chain. Bare transactions move one wei and were signed in advance.
 * Also shows how long an answer takes, and the exchange's CPU time per operation.
 */

import { parseGwei } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { toAddress } from '#domain/ids.ts'
import { APPROVAL_FOR_ALL_TYPES, conditionalTokensDomain } from '#domain/typed-data.ts'
import { split } from '../test/contracts/support/world.ts'
import { openRelayed } from '../test/support/relayed.ts'
import { median, progress, quick, report, runBench } from './bench.ts'
import { Histogram } from './histogram.ts'
import { openDriver, type Request, writeRequest } from './http-driver.ts'

const PER_ROUND = quick ? 100 : 300
const ROUNDS = quick ? 3 : 5
const WARMUPS = 1
const CONNECTIONS = 32
/** Devnet accounts whose keys the relayer uses. The accounts in `BARE` send the bare transactions. */
const RELAYING = [1, 4, 5, 6, 7, 8, 9, 10]
const BARE = [11, 12, 13, 14]
const GAS = 21_000n

const relayed = await openRelayed({
  environment: {
    SIBYL_LOG_LEVEL: 'error',
    SIBYL_RELAYER_KEYS: RELAYING.map(devnetKey).join(','),
    SIBYL_RELAYER_POLL_MS: '100',
    SIBYL_RELAYER_GAS_PER_DAY: '1000000000000',
    SIBYL_RELAYER_MIN_HOLDING: '0',
    SIBYL_RELAYER_TRADERS_PERCENT: '0',
  },
})
const { chain, exchange } = relayed
try {
  const countOf = async (accounts: readonly number[]): Promise<number> => {
    const counts = await Promise.all(
      accounts.map((index) =>
        chain.publicClient.getTransactionCount({ address: devnetAccount(index).address }),
      ),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }
  const untilMined = async (accounts: readonly number[], count: number): Promise<void> => {
    while ((await countOf(accounts)) < count) await new Promise((done) => setTimeout(done, 5))
  }

  progress('signing')
  const chainId = chain.chain.id
  const operator = chain.settlement.address
  const deadline = (await chain.chain.now()) + 86_400n
  const domain = conditionalTokensDomain(chainId, toAddress(chain.conditionalTokens.address))
  const approval = async (): Promise<Request> => {
    const account = privateKeyToAccount(generatePrivateKey())
    const message = { owner: account.address, operator, approved: true, nonce: 0n, deadline }
    const signature = await account.signTypedData({
      domain,
      types: APPROVAL_FOR_ALL_TYPES,
      primaryType: 'ApprovalForAll',
      message,
    })
    const body = {
      ...{ chainId, owner: account.address, operator, approved: true },
      deadline: String(deadline),
      ...split(signature),
    }
    return writeRequest('POST', '/api/v1/relayer/ctf-approval', JSON.stringify(body))
  }
  let bareNonce = 0
  /** Makes a list of transfers for each key, because the node requires the nonces of a key in order. */
  const transfers = async (): Promise<Request[][]> => {
    const lists: Request[][] = BARE.map(() => [])
    for (let at = 0; at < PER_ROUND; at += BARE.length, bareNonce++) {
      for (const [list, index] of BARE.entries()) {
        const account = devnetAccount(index)
        const raw = await account.signTransaction({
          type: 'eip1559',
          chainId,
          nonce: bareNonce,
          to: account.address,
          value: 1n,
          gas: GAS,
          maxFeePerGas: parseGwei('100'),
          maxPriorityFeePerGas: parseGwei('1'),
        })
        const call = { jsonrpc: '2.0', id: 1, method: 'eth_sendRawTransaction', params: [raw] }
        lists[list]?.push(writeRequest('POST', '/', JSON.stringify(call)))
      }
    }
    return lists
  }
  const operations: Request[][] = []
  const bare: Request[][][] = []
  for (let round = 0; round < ROUNDS + WARMUPS; round++) {
    const requests: Request[] = []
    for (let at = 0; at < PER_ROUND; at++) requests.push(await approval())
    operations.push(requests)
    bare.push(await transfers())
  }

  const driver = await openDriver(exchange.url, CONNECTIONS)
  const nodes = await Promise.all(BARE.map(() => openDriver(chain.url, 1)))
  const latencies = new Histogram()
  const cpuMs: number[] = []
  const cpuSeconds = async (): Promise<number> => {
    const text = await (await fetch(`${exchange.url}/metrics`)).text()
    return Number(/^process_cpu_seconds_total\S* (\S+)/m.exec(text)?.[1])
  }
  const result = await runBench({
    bench: 'relayer',
    unit: 'operations/s',
    peer: 'bare transactions, signed beforehand, on the same chain',
    bar: 0.03,
    rounds: ROUNDS,
    warmups: WARMUPS,
    async ours({ index }) {
      const requests = operations[index + WARMUPS] ?? []
      const before = await countOf(RELAYING)
      const cpuBefore = await cpuSeconds()
      const startedMs = performance.now()
      await driver.closedLoop(requests, ({ status, body, latencyMs }) => {
        if (status !== 200) throw new Error(`${status}: ${body}`)
        if (index >= 0) latencies.recordMs(latencyMs)
      })
      await untilMined(RELAYING, before + requests.length)
      const elapsedMs = performance.now() - startedMs
      if (index >= 0) cpuMs.push((((await cpuSeconds()) - cpuBefore) * 1_000) / requests.length)
      return (requests.length * 1_000) / elapsedMs
    },
    async theirs({ index }) {
      const lists = bare[index + WARMUPS] ?? []
      const before = await countOf(BARE)
      const startedMs = performance.now()
      await Promise.all(
        lists.map((requests, at) =>
          nodes[at]?.closedLoop(requests, ({ status, body }) => {
            if (status !== 200 || !body.includes('"result"')) throw new Error(`${status}: ${body}`)
          }),
        ),
      )
      await untilMined(BARE, before + PER_ROUND)
      return (PER_ROUND * 1_000) / (performance.now() - startedMs)
    },
  })
  driver.close()
  for (const node of nodes) node.close()
  const shown = {
    keys: RELAYING.length,
    connections: CONNECTIONS,
    cpuMsPerOperation: Math.round(median(cpuMs) * 10) / 10,
    answerMs: {
      p50: Math.round(latencies.quantileMs(0.5)),
      p99: Math.round(latencies.quantileMs(0.99)),
    },
  }
  process.stdout.write(`${JSON.stringify(shown)}\n`)
  report(result)
} finally {
  await exchange.dispose()
  await chain.close()
}
