/**
 * Uses a browser's wallet as a signer. Requests to the wallet's EIP-1193 provider are JSON, so bigints are sent as
 * decimal text. The signer signs only for the chain that is selected in the wallet.
 */

import { SibylError } from './sibyl-error.ts'

/** `window.ethereum`, or a provider that a wallet announces. */
export type Eip1193Provider = {
  request(asked: {
    readonly method: string
    readonly params?: readonly unknown[]
  }): Promise<unknown>
}

/** A signer of orders, relayed operations and texts; accepted wherever the SDK takes a signer. */
export type Eip1193Signer = {
  readonly address: string
  signTypedData(typed: object): Promise<string>
  signMessage(asked: { readonly message: string }): Promise<string>
}

type Typed = {
  readonly domain: Readonly<Record<string, unknown>>
  readonly types: Readonly<Record<string, unknown>>
}

/** Fields of an EIP-712 domain with their types, in the order in which the fields are hashed. */
const DOMAIN_FIELDS = [
  ['name', 'string'],
  ['version', 'string'],
  ['chainId', 'uint256'],
  ['verifyingContract', 'address'],
  ['salt', 'bytes32'],
] as const

const ADDRESS = /^0x[0-9a-fA-F]{40}$/
/** EIP-1193 code of a request that the user rejected. */
const REFUSED = 4001

/** Creates a signer from a wallet. Asks the wallet for its account, unless the caller gives an address. */
export async function eip1193Signer(
  provider: Eip1193Provider,
  { address: wanted }: { readonly address?: string } = {},
): Promise<Eip1193Signer> {
  async function ask(method: string, params: readonly unknown[] = []): Promise<unknown> {
    try {
      return await provider.request({ method, params })
    } catch (error) {
      const refused = (error as { code?: unknown } | null)?.code === REFUSED
      const code = refused ? 'SIGNATURE_REFUSED' : 'WALLET_FAILED'
      const message = refused
        ? 'the user rejected the request in the wallet'
        : `the wallet failed to execute ${method}`
      throw new SibylError(code, message, { cause: error })
    }
  }

  const address = wanted ?? (await accountOf())
  if (!ADDRESS.test(address)) {
    throw new SibylError('INVALID_FIELD', `the wallet has no valid address: '${address}'`, {
      field: 'address',
    })
  }

  async function accountOf(): Promise<string> {
    const accounts = await ask('eth_requestAccounts')
    return Array.isArray(accounts) ? String(accounts[0] ?? '') : ''
  }

  async function checkChain(chainId: unknown): Promise<void> {
    if (chainId === undefined) return
    const on = Number(await ask('eth_chainId'))
    if (on === Number(chainId)) return
    const message = `the wallet is on chain ${on}; switch it to chain ${chainId}`
    throw new SibylError('WRONG_CHAIN', message, { field: 'chainId' })
  }

  return {
    address,
    async signTypedData(typed) {
      const { domain, types } = typed as Typed
      await checkChain(domain.chainId)
      const fields = DOMAIN_FIELDS.filter(([name]) => domain[name] !== undefined)
      const EIP712Domain = fields.map(([name, type]) => ({ name, type }))
      const text = JSON.stringify({ ...typed, types: { EIP712Domain, ...types } }, asDecimal)
      return String(await ask('eth_signTypedData_v4', [address, text]))
    },
    async signMessage({ message }) {
      let hex = '0x'
      for (const byte of new TextEncoder().encode(message))
        hex += byte.toString(16).padStart(2, '0')
      return String(await ask('personal_sign', [hex, address]))
    },
  }
}

function asDecimal(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value
}
