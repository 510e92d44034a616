// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";

/// TEST ONLY. Code that a trader sets for their own account (EIP-7702). It accepts outcome tokens
/// in a simulation with a gas price of 0, and refuses them in a transaction that pays for gas.
contract FreeRideReceiver {
    function supportsInterface(bytes4) external pure returns (bool) {
        return true;
    }

    function onERC1155Received(address, address, uint256, uint256, bytes calldata)
        external
        view
        returns (bytes4)
    {
        if (tx.gasprice != 0) revert("not while somebody pays");
        return IERC1155Receiver.onERC1155Received.selector;
    }
}
