// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// TEST ONLY. Collateral whose transfers always succeed. So any account can split and merge any
/// amount, and the differential test reaches the limits of the number range.
contract FreeCollateral {
    function transferFrom(address, address, uint256) external pure returns (bool) {
        return true;
    }

    function transfer(address, uint256) external pure returns (bool) {
        return true;
    }
}
