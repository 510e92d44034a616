import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toHex } from 'viem'
import { mnemonicToAccount } from 'viem/accounts'
import { ACCOUNTS, devnetAccount, devnetKey } from '#devnet/accounts.ts'

test('a wallet derives the devnet’s accounts from the devnet’s seed phrase', () => {
  const phrase = 'test test test test test test test test test test test junk'
  const index = ACCOUNTS - 1
  const account = mnemonicToAccount(phrase, { addressIndex: index })
  assert.equal(devnetAccount(index).address, account.address)
  assert.equal(devnetKey(index), toHex(account.getHdKey().privateKey ?? assert.fail()))
  // As Hardhat prints them.
  assert.equal(devnetAccount(0).address, '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266')
})
