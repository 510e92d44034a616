/**
 * Sends many transactions of the devnet's own accounts in few blocks. `deploy` and `send` only collect transactions.
 * `deploy` returns the address that the new contract will have. `flush` sends the collected transactions as one batch,
 * mines, and checks every receipt. The chain's node signs for its accounts, so this file needs no key.
 */

import {
  type Abi,
  type Account,
  encodeDeployData,
  encodeFunctionData,
  getContractAddress,
} from 'viem'
import type { Deployer } from './deploy.ts'

type Hex = `0x${string}`

type Transaction = {
  readonly what: string
  readonly from: Hex
  readonly to?: Hex
  readonly data: Hex
  readonly nonce: number
  readonly gas: number
}

type RpcCall = { readonly method: string; readonly params: readonly unknown[] }

/** Sends several calls together and returns their answers in order; throws the first error. */
export type RpcBatch = (calls: readonly RpcCall[]) => Promise<unknown[]>

type BatchSender = Deployer & {
  flush(): Promise<void>
}

const DEPLOY_GAS = 16_000_000
const CALL_GAS = 1_000_000
/**
 * Fees far above those of a local chain. If a transaction states no fees, the node simulates all pending transactions
 * to estimate the fees, which would take most of the start time.
 */
const FEES = { maxFeePerGas: hexOf(10 ** 10), maxPriorityFeePerGas: hexOf(10 ** 9) }
const BLOCKS_MAX = 20
const BATCH_TIMEOUT_MS = 60_000

export function httpBatch(url: string): RpcBatch {
  return async (calls) => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      signal: AbortSignal.timeout(BATCH_TIMEOUT_MS),
      body: JSON.stringify(
        calls.map(({ method, params }, id) => ({ jsonrpc: '2.0', id, method, params })),
      ),
    })
    const answers = (await response.json()) as { result?: unknown; error?: { message: string } }[]
    return answers.map(({ result, error }, at) => {
      if (error !== undefined) throw new Error(`${calls[at]?.method}: ${error.message}`)
      return result
    })
  }
}

export function makeBatchSender(rpc: RpcBatch): BatchSender {
  const nonces = new Map<Hex, number>()
  let waiting: Transaction[] = []

  async function nextNonce(from: Hex): Promise<number> {
    const known = nonces.get(from)
    if (known !== undefined) {
      nonces.set(from, known + 1)
      return known
    }
    const params = [from, 'pending']
    const [count] = await rpc([{ method: 'eth_getTransactionCount', params }])
    nonces.set(from, Number(count) + 1)
    return Number(count)
  }

  async function receipts(hashes: readonly unknown[]): Promise<({ status: Hex } | null)[]> {
    const calls = hashes.map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] }))
    return (await rpc(calls)) as ({ status: Hex } | null)[]
  }

  return {
    async deploy(from: Account, artifact: { abi: Abi; bytecode: Hex }, args: unknown[]) {
      const { abi, bytecode } = artifact
      const nonce = await nextNonce(from.address)
      const data = encodeDeployData({ abi, bytecode, args })
      waiting.push({ what: 'a deployment', from: from.address, data, nonce, gas: DEPLOY_GAS })
      return getContractAddress({ from: from.address, nonce: BigInt(nonce) })
    },
    async send(from, contract, functionName, args) {
      const data = encodeFunctionData({ abi: contract.abi, functionName, args })
      waiting.push({
        what: functionName,
        from: from.address,
        to: contract.address,
        data,
        nonce: await nextNonce(from.address),
        gas: CALL_GAS,
      })
    },
    async flush() {
      const transactions = waiting
      waiting = []
      nonces.clear()
      if (transactions.length === 0) return
      const hashes = (
        await rpc([
          { method: 'evm_setAutomine', params: [false] },
          ...transactions.map(({ what: _, nonce, gas, ...transaction }) => ({
            method: 'eth_sendTransaction',
            params: [{ ...transaction, ...FEES, nonce: hexOf(nonce), gas: hexOf(gas) }],
          })),
          { method: 'evm_mine', params: [] },
          { method: 'evm_setAutomine', params: [true] },
        ])
      ).slice(1, -2)
      for (let block = 1; ; block++) {
        const found = await receipts(hashes)
        const failed = found.findIndex((receipt) => receipt !== null && receipt.status !== '0x1')
        if (failed >= 0) throw new Error(`${transactions[failed]?.what} reverted`)
        if (found.every((receipt) => receipt !== null)) return
        if (block === BLOCKS_MAX)
          throw new Error('some transactions were not included in any block')
        await rpc([{ method: 'evm_mine', params: [] }])
      }
    },
  }
}

function hexOf(value: number): Hex {
  return `0x${value.toString(16)}`
}
