/** Signs for the stand-in of eth_account: a question on the standard input, its answer on the output. */

import { text } from 'node:stream/consumers'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'

const { key, typedData } = JSON.parse(await text(process.stdin)) as {
  readonly key: Hex
  readonly typedData?: Parameters<ReturnType<typeof privateKeyToAccount>['signTypedData']>[0]
}
const account = privateKeyToAccount(key)
const signature = typedData === undefined ? undefined : await account.signTypedData(typedData)
process.stdout.write(JSON.stringify({ address: account.address, signature }))
