// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// TEST ONLY. Collateral whose transfers always succeed. So tests can split and merge any amount, up to the largest
/// numbers, in our conditional tokens and in the original ones.
contract FreeCollateral {
    function transferFrom(address, address, uint256) external pure returns (bool) {
        return true;
    }

    function transfer(address, uint256) external pure returns (bool) {
        return true;
    }
}
