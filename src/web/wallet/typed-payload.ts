/** What `eth_signTypedData_v4` takes: typed data as JSON, with integers as decimal text. */

type Fields = readonly { readonly name: string; readonly type: string }[]

export type SignedData = {
  readonly domain: Readonly<Record<string, string | number | undefined>>
  readonly types: Readonly<Record<string, Fields>>
  readonly primaryType: string
  readonly message: Readonly<Record<string, unknown>>
}

/** The fields of a domain in the order that EIP-712 gives them. */
const DOMAIN_FIELDS: Fields = [
  { name: 'name', type: 'string' },
  { name: 'version', type: 'string' },
  { name: 'chainId', type: 'uint256' },
  { name: 'verifyingContract', type: 'address' },
  { name: 'salt', type: 'bytes32' },
]

export function typedPayload({ domain, types, primaryType, message }: SignedData): string {
  const EIP712Domain = DOMAIN_FIELDS.filter(({ name }) => domain[name] !== undefined)
  return JSON.stringify(
    { domain, types: { ...types, EIP712Domain }, primaryType, message },
    (_key, value: unknown) => (typeof value === 'bigint' ? value.toString() : value),
  )
}
