/** Transactions that the account sends and pays for: full sets of shares, and a dispute at the oracle. */

import type { ChainConfig } from '#protocol/shapes/config.ts'
import {
  approveCall,
  type ChainCall,
  disputeCall,
  mergeCall,
  splitCall,
} from '../wallet/chain-calls.ts'
import { switchChain } from '../wallet/chain-switch.ts'
import type { Provider } from '../wallet/provider.ts'
import { readAllowance } from '../wallet/token-reads.ts'
import { account, node } from './account.ts'
import { chain } from './exchange.ts'
import { refreshFunds } from './funds.ts'

const POLL_MS = 400
/** Maximum wait until a transaction is in a block. This is enough for several blocks of twelve seconds. */
const WAIT_MS = 180_000

/** Converts dollars into equal numbers of YES and NO shares. */
export async function splitShares(marketId: string, amount: bigint): Promise<void> {
  const { contracts } = chainOf()
  await withAllowance(contracts.conditionalTokens, amount, splitCall(contracts, marketId, amount))
}

/** Converts equal numbers of YES and NO shares back into dollars. */
export async function mergeShares(marketId: string, amount: bigint): Promise<void> {
  await send(mergeCall(chainOf().contracts, marketId, amount))
}

/** Disputes a proposal. The account posts a bond as large as the proposer's. */
export async function disputeProposal(assertionId: string, bond: bigint): Promise<void> {
  const { contracts } = chainOf()
  const call = disputeCall(contracts, assertionId, accountOf().address)
  await withAllowance(contracts.oracle, bond, call)
}

async function withAllowance(spender: string, amount: bigint, call: ChainCall): Promise<void> {
  const { address, provider } = accountOf()
  const { contracts } = chainOf()
  const allowed = await readAllowance(node.value ?? provider, contracts, address, spender)
  if (allowed < amount) await send(approveCall(contracts, spender, amount))
  await send(call)
}

async function send(call: ChainCall): Promise<void> {
  const { address, provider, kind } = accountOf()
  if (kind === 'wallet') await switchChain(provider, chainOf())
  await sendFrom(provider, address, call)
  await refreshFunds()
}

/** Sends a transaction and waits until it is in a block. */
export async function sendFrom(provider: Provider, from: string, call: ChainCall): Promise<void> {
  const { to, data, value } = call
  const sent = value === undefined ? {} : { value: `0x${value.toString(16)}` }
  const params = [{ from, to, data, ...sent }]
  const hash = await provider.request({ method: 'eth_sendTransaction', params })
  const untilMs = Date.now() + WAIT_MS
  for (;;) {
    const method = 'eth_getTransactionReceipt'
    const receipt = (await provider.request({ method, params: [hash] })) as {
      status?: string
    } | null
    if (receipt?.status === '0x1') return
    if (receipt !== null) throw new Error('the chain rejected the transaction')
    if (Date.now() > untilMs) throw new Error('the transaction is not in a block yet')
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

function accountOf() {
  const chosen = account.value
  if (chosen === undefined) throw new Error('connect an account first')
  return chosen
}

function chainOf(): ChainConfig {
  const found = chain.value
  if (found === undefined) throw new Error('this exchange has no chain configured')
  return found
}
