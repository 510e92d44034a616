/**
 * `npm run trader -- <command>`: calls that a trader sends on chain without the exchange, for example because the
 * exchange is gone. It needs a node of the chain, the address of the settlement contract and the trader's key. It reads
 * the addresses of the other contracts from the settlement contract.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import {
  type Abi,
  createPublicClient,
  createWalletClient,
  encodeFunctionData,
  getAddress,
  type Hex,
  http,
  parseSignature,
  parseUnits,
  zeroHash,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { conditionalTokensAbi } from './artifacts/ConditionalTokens.abi.ts'
import { settlementAbi } from './artifacts/Settlement.abi.ts'

const HELP = `What a trader does on chain without the exchange.

  npm run trader -- cancel --orders <file>      withdraws the signed orders in a JSON file
  npm run trader -- cancel-all [--nonce <n>]    withdraws all orders with a nonce below <n>; without
                                                --nonce, all orders that the SDK has made until now
  npm run trader -- redeem --market <id>        redeems the tokens of a resolved market for their payout
  npm run trader -- merge --market <id> --amount <shares>   turns as many YES and NO tokens back into collateral
  npm run trader -- send --transaction <file>   sends a transaction that was signed with --sign

  --rpc <url>              a node of the chain
  --settlement <address>   the settlement contract
  --key-file <file>        file with the private key of the trader; for send, of the account that pays the gas
  --sign                   for cancel and cancel-all: signs and prints the transaction, but does not send it.
                           Any account with ether may send it within a day.
`

const DECIMALS = 6
const BOTH = [1n, 2n] as const
const DAY_SEC = 86_400n
/** Number of random bits in a nonce of the SDK. The bits above them are the time in milliseconds. */
const NONCE_RANDOM_BITS = 20n

const CANCEL_ORDERS = {
  CancelOrders: [
    { name: 'trader', type: 'address' },
    { name: 'orderHashes', type: 'bytes32[]' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const
const CANCEL_ALL_BEFORE = {
  CancelAllBefore: [
    { name: 'trader', type: 'address' },
    { name: 'nonce', type: 'uint64' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

type Order = Parameters<typeof orderOf>[0]
type Transaction = { readonly to: Hex; readonly data: Hex }

const { values, positionals } = readArguments()

function readArguments() {
  const options = {
    rpc: { type: 'string' },
    settlement: { type: 'string' },
    'key-file': { type: 'string' },
    orders: { type: 'string' },
    nonce: { type: 'string' },
    market: { type: 'string' },
    amount: { type: 'string' },
    transaction: { type: 'string' },
    sign: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  } as const
  try {
    return parseArgs({ allowPositionals: true, options })
  } catch (error) {
    const [line = ''] = (error instanceof Error ? error.message : String(error)).split('. ')
    process.stderr.write(`trader: ${line}; --help lists all options\n`)
    process.exit(2)
  }
}

try {
  const [command, ...rest] = positionals
  if (values.help === true || command === undefined) process.stdout.write(HELP)
  else if (rest.length > 0)
    throw new Error(`unexpected argument '${rest[0]}'; --help lists all commands`)
  else await run(command)
} catch (error) {
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
  process.stderr.write(`trader: ${line}\n`)
  process.exitCode = 1
}

async function run(command: string): Promise<void> {
  const account = privateKeyToAccount(readFileSync(given('key-file'), 'utf8').trim() as Hex)
  const transport = http(given('rpc'))
  const node = createPublicClient({ transport })
  const wallet = createWalletClient({ account, transport })

  const settlement = () =>
    ({ address: getAddress(given('settlement')), abi: settlementAbi }) as const

  async function send({ to, data }: Transaction): Promise<void> {
    // Simulates the call at the node first. If the simulation fails, the trader sees the reason and pays no gas.
    await node.call({ account, to, data })
    const hash = await wallet.sendTransaction({ chain: null, to, data })
    const { status } = await node.waitForTransactionReceipt({ hash })
    if (status !== 'success') throw new Error(`the transaction ${hash} failed`)
    process.stdout.write(`done: ${hash}\n`)
  }

  async function onSettlement(functionName: string, args: readonly unknown[]): Promise<void> {
    const { address, abi } = settlement()
    await send({ to: address, data: encodeFunctionData({ abi: abi as Abi, functionName, args }) })
  }

  /**
   * Signs a call and prints it, so that any account can send it. `name` is the contract function that takes the
   * signature.
   */
  async function printSigned(
    name: 'cancelOrdersWithPermit' | 'cancelAllBeforeWithPermit',
    typed: { readonly types: object; readonly primaryType: string; readonly message: object },
    what: unknown,
  ): Promise<void> {
    const { address: to, abi } = settlement()
    const deadline = (await node.getBlock()).timestamp + DAY_SEC
    const domain = {
      name: 'SibylSettlement',
      version: '1',
      chainId: await node.getChainId(),
      verifyingContract: to,
    }
    const message = { trader: account.address, ...typed.message, deadline }
    const signature = await account.signTypedData({ ...typed, domain, message } as never)
    const { r, s, yParity } = parseSignature(signature)
    const args = [account.address, what, deadline, 27 + yParity, r, s]
    const data = encodeFunctionData({ abi: abi as Abi, functionName: name, args })
    process.stdout.write(`${JSON.stringify({ to, data })}\n`)
  }

  async function cancel(): Promise<void> {
    const orders = ordersIn(given('orders'))
    if (values.sign !== true) return onSettlement('cancelOrders', [orders])
    const hashes = orders.map((order) =>
      node.readContract({ ...settlement(), functionName: 'hashOrder', args: [order] }),
    )
    const message = { orderHashes: await Promise.all(hashes) }
    const typed = { types: CANCEL_ORDERS, primaryType: 'CancelOrders', message }
    return printSigned('cancelOrdersWithPermit', typed, orders)
  }

  async function cancelAll(): Promise<void> {
    const nonce = BigInt(values.nonce ?? BigInt(Date.now() + 1) << NONCE_RANDOM_BITS)
    if (values.sign !== true) return onSettlement('cancelAllBefore', [nonce])
    const typed = { types: CANCEL_ALL_BEFORE, primaryType: 'CancelAllBefore', message: { nonce } }
    return printSigned('cancelAllBeforeWithPermit', typed, nonce)
  }

  async function onTokens(functionName: 'redeemPositions' | 'mergePositions', amount?: bigint) {
    const market = given('market') as Hex
    const [to, collateral] = await Promise.all([
      node.readContract({ ...settlement(), functionName: 'conditionalTokens' }),
      node.readContract({ ...settlement(), functionName: 'collateral' }),
    ])
    const args = [collateral, zeroHash, market, BOTH, ...(amount === undefined ? [] : [amount])]
    const abi = conditionalTokensAbi as Abi
    await send({ to, data: encodeFunctionData({ abi, functionName, args }) })
  }

  switch (command) {
    case 'cancel':
      return cancel()
    case 'cancel-all':
      return cancelAll()
    case 'redeem':
      return onTokens('redeemPositions')
    case 'merge':
      return onTokens('mergePositions', parseUnits(given('amount'), DECIMALS))
    case 'send':
      return send(JSON.parse(readFileSync(given('transaction'), 'utf8')) as Transaction)
    default:
      throw new Error(`there is no command '${command}'; --help lists all commands`)
  }
}

function given(name: Exclude<keyof typeof values, 'sign' | 'help'>): string {
  const value = values[name]
  if (value === undefined) throw new Error(`--${name} is missing; --help lists all options`)
  return value
}

/**
 * Reads one order or a list of orders from a JSON file. Each entry is the order as it was signed, or the request body
 * that contains the order.
 */
function ordersIn(file: string) {
  const read = JSON.parse(readFileSync(file, 'utf8')) as unknown
  const list = (Array.isArray(read) ? read : [read]) as (Order & { readonly order?: Order })[]
  return list.map((each) => orderOf(each.order ?? each))
}

function orderOf(order: {
  readonly marketId: string
  readonly trader: string
  readonly side: number
  readonly outcome: number
  readonly price: string | number
  readonly size: string | number
  readonly nonce: string | number
  readonly expiration: string | number
  readonly makerFeeRecipient: string
}) {
  return {
    marketId: order.marketId as Hex,
    trader: order.trader as Hex,
    side: order.side,
    outcome: order.outcome,
    price: BigInt(order.price),
    size: BigInt(order.size),
    nonce: BigInt(order.nonce),
    expiration: BigInt(order.expiration),
    makerFeeRecipient: order.makerFeeRecipient as Hex,
  }
}
