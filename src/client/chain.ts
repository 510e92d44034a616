/**
 * Sends transactions for a trader who has ether: splits and merges of shares, approvals, and transfers. Also reads
 * balances. The exchange provides the addresses of the contracts. The caller provides the RPC address, except on a
 * devnet, where the exchange publishes the address.
 */

import {
  type Abi,
  type Account,
  BaseError,
  type Chain,
  ContractFunctionRevertedError,
  createPublicClient,
  createWalletClient,
  defineChain,
  encodeFunctionData,
  type Hex,
  http,
  type PublicClient,
  type Transport,
} from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { parseAddress, parseMarketId } from '#domain/ids.ts'
import { NATIVE_CURRENCY } from '#domain/native-currency.ts'
import type { ChainConfig } from '#protocol/shapes/config.ts'
import { type Amount, readAllowance, readAmount } from './amount.ts'
import { accountOf } from './local-key.ts'
import { SibylError } from './sibyl-error.ts'
import { type OrderSigner, signerAddress } from './sign-order.ts'

/** A transaction that was mined and succeeded. */
export type Sent = { readonly txHash: string; readonly blockNumber: bigint }

export type Balances = {
  /** Amount of ether in wei. */
  readonly ether: bigint
  /** Amount of stablecoin in millionths. */
  readonly stablecoin: bigint
  /** Shares of YES in millionths; 0 if no market was given. `no` is the same for NO. */
  readonly yes: bigint
  readonly no: bigint
}

export type Approvals = {
  /** Amount of the stablecoin that the settlement contract may take. */
  readonly stablecoin: bigint
  /** True if the settlement contract may move outcome tokens. */
  readonly conditionalTokens: boolean
}

export type ClientChain = {
  /**
   * Returns the balances of a wallet address, by default the signer's. If a market is given, also returns the balances
   * of its shares.
   */
  balances(of?: { readonly address?: string; readonly marketId?: string }): Promise<Balances>
  /** Returns the approvals that a wallet address, by default the signer's, has given to the settlement contract. */
  approvals(of?: { readonly address?: string }): Promise<Approvals>
  /**
   * Allows the settlement contract to take `value` of the stablecoin, 10,000 dollars by default, and to move outcome
   * tokens; sends only missing approvals.
   */
  approve(value?: Amount | 'unlimited'): Promise<Sent[]>
  /** Converts stablecoin into equal numbers of YES and NO shares; sends the necessary approval first. */
  split(marketId: string, amount: Amount): Promise<Sent>
  /** Converts equal numbers of YES and NO shares back into stablecoin. */
  merge(marketId: string, amount: Amount): Promise<Sent>
  /** Sends stablecoin to an address. */
  transfer(to: string, amount: Amount): Promise<Sent>
}

type Call = {
  readonly address: Hex
  readonly abi: Abi
  readonly functionName: string
  readonly args: readonly unknown[]
}

/** A viem wallet client, such as one around a browser's wallet. */
type SendingWallet = {
  readonly account: { readonly address: string }
  sendTransaction(transaction: object): Promise<Hex>
}

/**
 * Errors of the stablecoin and of the conditional tokens. The conditional tokens call the stablecoin, so a
 * call can fail with an error of either contract.
 */
const ERRORS: Abi = [...testUSDCAbi, ...conditionalTokensAbi].filter(({ type }) => type === 'error')
const HALF_OF_ALL = 2n ** 255n
const NO_COLLECTION: Hex = `0x${'0'.repeat(64)}`
const BOTH_OUTCOMES = [1n, 2n] as const
const DEVNET_CHAIN_ID = 31_337
/** Interval of polls on a local chain, which mines each transaction immediately. */
const DEVNET_POLL_MS = 50
const POSITIONS_KEPT_MAX = 1_000

type ChainPorts = {
  readonly chain: () => Promise<ChainConfig>
  readonly signer: () => OrderSigner
  readonly rpcUrl: string | undefined
}

/** Makes the functions that read the chain and the token ids of its markets. */
function makeReach(ports: Pick<ChainPorts, 'chain' | 'rpcUrl'>) {
  const positions = new Map<string, readonly [bigint, bigint]>()
  let reached:
    | { readonly chainId: number; readonly client: PublicClient<Transport, Chain> }
    | undefined

  async function reach() {
    const { chainId, rpcUrl: publicUrl, contracts } = await ports.chain()
    const url = ports.rpcUrl ?? publicUrl
    if (url === undefined) {
      throw new SibylError(
        'MISSING_FIELD',
        `the exchange publishes no RPC URL for chain ${chainId}: give createClient an rpcUrl`,
        {
          field: 'rpcUrl',
        },
      )
    }
    if (reached?.chainId !== chainId) {
      const chain = defineChain({
        id: chainId,
        name: `chain ${chainId}`,
        nativeCurrency: NATIVE_CURRENCY,
        rpcUrls: { default: { http: [url] } },
      })
      const pace = chainId === DEVNET_CHAIN_ID ? { pollingInterval: DEVNET_POLL_MS } : {}
      reached = { chainId, client: createPublicClient({ chain, transport: http(url), ...pace }) }
    }
    const usdc = { address: contracts.stablecoin as Hex, abi: testUSDCAbi }
    const tokens = { address: contracts.conditionalTokens as Hex, abi: conditionalTokensAbi }
    return { client: reached.client, usdc, tokens, settlement: contracts.settlement as Hex }
  }

  /** Returns the ids of a market's two tokens; they depend only on the market and never change. */
  async function positionsOf(marketId: Hex): Promise<readonly [bigint, bigint]> {
    const known = positions.get(marketId)
    if (known !== undefined) return known
    const { client, usdc, tokens } = await reach()
    const [yes, no] = await Promise.all(
      BOTH_OUTCOMES.map(async (indexSet) => {
        const collection = await client.readContract({
          ...tokens,
          functionName: 'getCollectionId',
          args: [NO_COLLECTION, marketId, indexSet],
        })
        const args = [usdc.address, collection] as const
        return client.readContract({ ...tokens, functionName: 'getPositionId', args })
      }),
    )
    const found = [yes ?? 0n, no ?? 0n] as const
    if (positions.size >= POSITIONS_KEPT_MAX) positions.clear()
    positions.set(marketId, found)
    return found
  }

  return { reach, positionsOf }
}

export function createClientChain(ports: ChainPorts): ClientChain {
  const { reach, positionsOf } = makeReach(ports)
  let working: Promise<unknown> = Promise.resolve()

  const owner = async (address: string | undefined) =>
    (address ?? (await signerAddress(ports.signer()))) as Hex

  /** Runs tasks one after the other, because two concurrent tasks would use the same nonce and allowance. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = working.then(() => inWords(work))
    working = done.catch(() => undefined)
    return done
  }

  const send = async (call: Call): Promise<Sent> =>
    sendCall(call, (await reach()).client, ports.signer())

  async function allowance(address: Hex, spender: Hex): Promise<bigint> {
    const { client, usdc } = await reach()
    return client.readContract({ ...usdc, functionName: 'allowance', args: [address, spender] })
  }

  async function approvals(address: Hex): Promise<Approvals> {
    const { client, tokens, settlement } = await reach()
    const args = [address, settlement] as const
    const [stablecoin, conditionalTokens] = await Promise.all([
      allowance(address, settlement),
      client.readContract({ ...tokens, functionName: 'isApprovedForAll', args }),
    ])
    return { stablecoin, conditionalTokens }
  }

  return {
    balances: ({ address, marketId } = {}) =>
      inWords(async () => {
        const { client, usdc, tokens } = await reach()
        const holder = await owner(address)
        const market = marketId === undefined ? undefined : readMarket(marketId)
        const ids = market === undefined ? [] : await positionsOf(market)
        const [ether, stablecoin, [yes = 0n, no = 0n]] = await Promise.all([
          client.getBalance({ address: holder }),
          client.readContract({ ...usdc, functionName: 'balanceOf', args: [holder] }),
          ids.length === 0
            ? []
            : client.readContract({
                ...tokens,
                functionName: 'balanceOfBatch',
                args: [ids.map(() => holder), ids],
              }),
        ])
        return { ether, stablecoin, yes, no }
      }),
    approvals: ({ address } = {}) => inWords(async () => approvals(await owner(address))),
    approve: (value) =>
      inTurn(async () => {
        const wanted = readAllowance(value)
        const { usdc, tokens, settlement } = await reach()
        const before = await approvals(await owner(undefined))
        const sent: Sent[] = []
        // Some tokens reduce an unlimited allowance with each use. An allowance of at least half the maximum is still
        // enough for any supply of the token. So it counts as unlimited and is not renewed.
        if (before.stablecoin < (wanted > HALF_OF_ALL ? HALF_OF_ALL : wanted)) {
          const args = [settlement, wanted]
          sent.push(await send({ ...usdc, functionName: 'approve', args }))
        }
        if (!before.conditionalTokens) {
          const args = [settlement, true]
          sent.push(await send({ ...tokens, functionName: 'setApprovalForAll', args }))
        }
        return sent
      }),
    split: (marketId, amount) =>
      inTurn(async () => {
        const { usdc, tokens } = await reach()
        const market = readMarket(marketId)
        const value = readShares(amount)
        if ((await allowance(await owner(undefined), tokens.address)) < value) {
          await send({ ...usdc, functionName: 'approve', args: [tokens.address, value] })
        }
        const args = [usdc.address, NO_COLLECTION, market, BOTH_OUTCOMES, value]
        return send({ ...tokens, functionName: 'splitPosition', args })
      }),
    merge: (marketId, amount) =>
      inTurn(async () => {
        const { usdc, tokens } = await reach()
        const market = readMarket(marketId)
        const args = [usdc.address, NO_COLLECTION, market, BOTH_OUTCOMES, readShares(amount)]
        return send({ ...tokens, functionName: 'mergePositions', args })
      }),
    transfer: (to, amount) =>
      inTurn(async () => {
        const { usdc } = await reach()
        if (parseAddress(to) === undefined) {
          const message = `to: '${to}' is not 0x and 40 hex digits`
          throw new SibylError('INVALID_FIELD', message, { field: 'to' })
        }
        return send({ ...usdc, functionName: 'transfer', args: [to, readShares(amount)] })
      }),
  }
}

/** Sends a transaction and waits until it is mined. */
async function sendCall(
  call: Call,
  client: PublicClient<Transport, Chain>,
  signer: OrderSigner,
): Promise<Sent> {
  // Simulate the call first. A call that would revert is then not sent: it costs no gas, and the simulation returns the
  // reason.
  const abi = [...call.abi, ...ERRORS]
  await client.simulateContract({ ...call, abi, account: (await signerAddress(signer)) as Hex })
  const transaction = { to: call.address, data: encodeFunctionData(call) }
  const hash = isWallet(signer)
    ? await signer.sendTransaction({
        ...transaction,
        account: signer.account,
        chain: client.chain,
      })
    : await createWalletClient({
        account: localAccount(signer),
        chain: client.chain,
        transport: http(client.transport.url),
      }).sendTransaction(transaction)
  const receipt = await client.waitForTransactionReceipt({ hash })
  if (receipt.status !== 'success') {
    throw new SibylError('REVERTED', `the transaction ${hash} of ${call.functionName} reverted`)
  }
  return { txHash: hash, blockNumber: receipt.blockNumber }
}

function readMarket(marketId: string): Hex {
  const market = parseMarketId(marketId)
  if (market !== undefined) return market as string as Hex
  const message = `marketId: '${marketId}' is not 0x and 64 hex digits`
  throw new SibylError('INVALID_FIELD', message, { field: 'marketId' })
}

function readShares(amount: Amount): bigint {
  const value = readAmount('amount', amount)
  if (value > 0) return BigInt(value)
  throw new SibylError('SIZE_NOT_POSITIVE', `amount must be above zero, not ${amount}`, {
    field: 'amount',
  })
}

function isWallet(signer: OrderSigner): signer is OrderSigner & SendingWallet {
  return (
    typeof signer === 'object' &&
    'account' in signer &&
    typeof (signer as { sendTransaction?: unknown }).sendTransaction === 'function'
  )
}

function localAccount(signer: OrderSigner): Account {
  if (typeof signer === 'string') return accountOf(signer)
  if (typeof (signer as { signTransaction?: unknown }).signTransaction === 'function') {
    return signer as unknown as Account
  }
  throw new SibylError(
    'INVALID_FIELD',
    'this signer cannot send transactions: give a private key, a viem account or a wallet client',
    { field: 'signer' },
  )
}

/** Converts viem's errors to `SibylError`, with the reason of a revert. */
async function inWords<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof BaseError)) throw error
    const revert = error.walk((inner) => inner instanceof ContractFunctionRevertedError)
    if (revert instanceof ContractFunctionRevertedError) {
      const reason = revert.data?.errorName === 'Error' ? revert.reason : revert.data?.errorName
      const why = reason ?? revert.reason ?? revert.shortMessage
      throw new SibylError('REVERTED', `the chain rejects the call: ${why}`, { cause: error })
    }
    throw new SibylError('CHAIN_UNAVAILABLE', error.shortMessage, { cause: error })
  }
}
